// sandboxd runs commands in a sandbox through the published Go client of
// agent-sandbox's sandboxd: sandboxd HOST:PORT. It prints "ok" and each thing it
// has tried, and fails at the first that is not as expected.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	processv1 "sigs.k8s.io/agent-sandbox/packages/sandboxd/spec/process/v1"
)

const patience = 90 * time.Second

func check(good bool, format string, args ...any) {
	if !good {
		log.Fatalf(format, args...)
	}
}

func shell(command string) *processv1.ProcessConfig {
	return &processv1.ProcessConfig{Command: []string{"/bin/sh", "-c", command}}
}

// stream is a call of Start: its process, and what it has said so far.
type stream struct {
	processv1.ProcessService_StartClient
	id       int32
	out, err bytes.Buffer
	exit     *int32
}

func start(ctx context.Context, client processv1.ProcessServiceClient,
	request *processv1.StartRequest) *stream {
	call, err := client.Start(ctx, request)
	check(err == nil, "Start: %v", err)
	s := &stream{ProcessService_StartClient: call}
	event, err := call.Recv()
	check(err == nil && event.GetInit() != nil, "init: %v %v", event, err)
	s.id = event.GetInit().GetProcessId()
	return s
}

// until reads on until the text was said, or all of it.
func (s *stream) until(text string) {
	for text == "" || !strings.Contains(s.out.String(), text) {
		event, err := s.Recv()
		if errors.Is(err, io.EOF) && text == "" {
			return
		}
		check(err == nil, "stream: %v, so far %q", err, s.out.String())
		s.out.Write(event.GetStdout())
		s.err.Write(event.GetStderr())
		if event.GetExit() != nil {
			code := event.GetExit().GetExitCode()
			s.exit = &code
		}
	}
}

func (s *stream) ends(code int32) {
	s.until("")
	check(s.exit != nil && *s.exit == code, "exit %v, want %d", s.exit, code)
}

func main() {
	conn, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err == nil, "client: %v", err)
	defer conn.Close()
	client := processv1.NewProcessServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, try := range []struct {
		name string
		run  func(context.Context, processv1.ProcessServiceClient)
	}{
		{"execute", execute}, {"errors", refused}, {"late", late},
		{"input", input}, {"terminal", terminal}, {"signals", signals},
		{"at once", atOnce}, {"hang up", hangUp},
	} {
		try.run(ctx, client)
		fmt.Println("ok", try.name)
	}
}

func execute(ctx context.Context, client processv1.ProcessServiceClient) {
	config := shell("echo $A; pwd >&2; exit 4")
	config.EnvVars = map[string]string{"A": "b"}
	result, err := client.Execute(ctx, &processv1.ExecuteRequest{Config: config})
	check(err == nil && result.GetExitCode() == 4 &&
		string(result.GetStdout()) == "b\n" && len(result.GetStderr()) > 2,
		"Execute: %v %v", result, err)
}

func refused(ctx context.Context, client processv1.ProcessServiceClient) {
	for _, try := range []struct {
		config *processv1.ProcessConfig
		want   codes.Code
	}{
		{nil, codes.InvalidArgument},
		{&processv1.ProcessConfig{}, codes.InvalidArgument},
		{&processv1.ProcessConfig{Command: []string{"/no/such"}}, codes.NotFound},
		{&processv1.ProcessConfig{Command: []string{"/"}}, codes.PermissionDenied},
	} {
		_, err := client.Execute(ctx, &processv1.ExecuteRequest{Config: try.config})
		check(status.Code(err) == try.want, "%v: %v, want %v", try.config, err, try.want)
	}
	_, err := client.SendSignal(ctx, &processv1.SendSignalRequest{
		ProcessId: 123456, Signal: processv1.Signal_SIGNAL_SIGTERM})
	check(status.Code(err) == codes.NotFound, "SendSignal: %v", err)
}

func late(ctx context.Context, client processv1.ProcessServiceClient) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := client.Execute(ctx, &processv1.ExecuteRequest{Config: shell("sleep 1000")})
	check(status.Code(err) == codes.DeadlineExceeded, "late: %v", err)
}

func input(ctx context.Context, client processv1.ProcessServiceClient) {
	s := start(ctx, client, &processv1.StartRequest{Config: shell("cat; echo end >&2; exit 3")})
	for _, piece := range []string{"one\n", "two\n"} {
		_, err := client.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: s.id,
			Payload: &processv1.WriteStdinRequest_Input{Input: []byte(piece)}})
		check(err == nil, "WriteStdin: %v", err)
		s.until(piece)
	}
	_, err := client.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: s.id,
		Payload: &processv1.WriteStdinRequest_Eof{Eof: &emptypb.Empty{}}})
	check(err == nil, "end of input: %v", err)
	s.ends(3)
	check(s.err.String() == "end\n", "stderr: %q", s.err.String())
}

func terminal(ctx context.Context, client processv1.ProcessServiceClient) {
	s := start(ctx, client, &processv1.StartRequest{
		Config: shell("stty size; read line; stty size"),
		Pty:    &processv1.PTY{Cols: 80, Rows: 24}})
	s.until("24 80")
	_, err := client.ResizeTTY(ctx, &processv1.ResizeTTYRequest{ProcessId: s.id,
		Cols: 100, Rows: 40})
	check(err == nil, "ResizeTTY: %v", err)
	_, err = client.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: s.id,
		Payload: &processv1.WriteStdinRequest_Input{Input: []byte("x\n")}})
	check(err == nil, "WriteStdin: %v", err)
	s.ends(0)
	check(strings.Contains(s.out.String(), "40 100"), "terminal: %q", s.out.String())
}

func signals(ctx context.Context, client processv1.ProcessServiceClient) {
	s := start(ctx, client, &processv1.StartRequest{Config: shell(
		"trap 'exit 5' TERM; echo up; while :; do :; done")})
	s.until("up")
	_, err := client.SendSignal(ctx, &processv1.SendSignalRequest{ProcessId: s.id,
		Signal: processv1.Signal_SIGNAL_SIGTERM})
	check(err == nil, "SendSignal: %v", err)
	s.ends(5)
}

func atOnce(ctx context.Context, client processv1.ProcessServiceClient) {
	var all sync.WaitGroup
	for i := range 64 {
		all.Add(1)
		go func() {
			defer all.Done()
			result, err := client.Execute(ctx, &processv1.ExecuteRequest{
				Config: shell(fmt.Sprintf("echo %d", i))})
			check(err == nil && string(result.GetStdout()) == fmt.Sprintln(i),
				"%d: %v %v", i, result, err)
		}()
	}
	all.Wait()
}

func hangUp(ctx context.Context, client processv1.ProcessServiceClient) {
	inner, cancel := context.WithCancel(ctx)
	s := start(inner, client, &processv1.StartRequest{Config: shell("echo $$; sleep 1000")})
	s.until("\n")
	cancel()
	pid := strings.TrimSpace(s.out.String())
	for ctx.Err() == nil {
		result, err := client.Execute(ctx, &processv1.ExecuteRequest{
			Config: shell("kill -0 " + pid)})
		check(err == nil, "Execute: %v", err)
		if result.GetExitCode() != 0 {
			return
		}
	}
	check(false, "process %s outlives its stream", pid)
}
