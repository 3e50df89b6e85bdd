// h2spec, the public conformance test of HTTP/2, against a listener in clear.
//
//	h2spec HOST PORT PATH REPORT [SECTION...]
//
// Runs every section of RFC 7540 and RFC 7541 that it knows, or those named, and
// writes REPORT in JUnit's form.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: h2spec HOST PORT PATH REPORT [SECTION...]")
		os.Exit(2)
	}
	port, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "PORT:", err)
		os.Exit(2)
	}
	good, err := h2spec.Run(&config.Config{
		Host: os.Args[1], Port: port, Path: os.Args[3], JUnitReport: os.Args[4],
		Timeout: 2 * time.Second, MaxHeaderLen: 4000, Sections: os.Args[5:],
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}
