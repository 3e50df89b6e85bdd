// Takes OTLP over HTTP with the code of OpenTelemetry's collector, and prints a line of
// JSON for each span. The first line is its address.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

type span struct {
	Trace, Span, Parent, Name, Kind, Status string
	Begin, End                              int64
	Attributes, Resource                    map[string]any
}

func take(request ptraceotlp.ExportRequest) {
	out := json.NewEncoder(os.Stdout)
	for _, resource := range request.Traces().ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				_ = out.Encode(span{
					s.TraceID().String(), s.SpanID().String(), s.ParentSpanID().String(),
					s.Name(), s.Kind().String(), s.Status().Code().String(),
					s.StartTimestamp().AsTime().UnixNano(), s.EndTimestamp().AsTime().UnixNano(),
					s.Attributes().AsRaw(), resource.Resource().Attributes().AsRaw(),
				})
			}
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	http.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := ptraceotlp.NewExportRequest()
		if err == nil {
			err = request.UnmarshalJSON(body)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		take(request)
	})
	panic(http.Serve(listener, nil))
}
