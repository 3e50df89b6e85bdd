// h2spec's cases against one listener: h2spec HOST:PORT. Exits with 1 when one of
// them fails.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: h2spec HOST:PORT")
		os.Exit(2)
	}
	host, text, err := net.SplitHostPort(os.Args[1])
	port, bad := strconv.Atoi(text)
	if err != nil || bad != nil {
		fmt.Fprintln(os.Stderr, "HOST:PORT expected")
		os.Exit(2)
	}
	ok, err := h2spec.Run(&config.Config{
		Host:         host,
		Port:         port,
		Path:         "/warmpool.v1.Allocator/Claim",
		Timeout:      5 * time.Second,
		MaxHeaderLen: 4000,
		Strict:       true,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
