// The same as python/mcp_tools.py, with the official MCP SDK for Go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	ctx     = context.Background()
	folder  string
	session *mcp.ClientSession
)

type args map[string]any

func call(ctx context.Context, tool string, with args, meta mcp.Meta) (*mcp.CallToolResult, error) {
	return session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: with, Meta: meta})
}

func told(result *mcp.CallToolResult, err error) []string {
	if err != nil {
		return []string{"refused", err.Error()}
	}
	text := strings.Builder{}
	for _, one := range result.Content {
		text.WriteString(one.(*mcp.TextContent).Text)
	}
	if result.IsError {
		return []string{"failed", text.String()}
	}
	return []string{"ok", text.String()}
}

func tool(name string, with args) []string { return told(call(ctx, name, with, nil)) }

func object(text string) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		log.Fatalf("%s: %v", text, err)
	}
	return out
}

func run(command string) map[string]any {
	return object(tool("exec", args{"command": command})[1])
}

func waits(name string) string {
	return fmt.Sprintf("touch %s/%s.begun; while [ ! -e %s/%s ]; do sleep 0.05; done; echo through",
		folder, name, folder, name)
}

func begun(name string) {
	run(fmt.Sprintf("while [ ! -e %s/%s.begun ]; do sleep 0.05; done", folder, name))
}

func main() {
	url, cut := os.Args[1], os.Args[3]
	folder = os.Args[2]
	seen := map[string]any{}
	var lock sync.Mutex
	heard := []float64{}
	twice := make(chan struct{})
	lost := make(chan struct{})
	var once sync.Once
	client := mcp.NewClient(&mcp.Implementation{Name: "warmpool-test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken == "lost" {
				once.Do(func() { close(lost) })
				return
			}
			lock.Lock()
			defer lock.Unlock()
			heard = append(heard, r.Params.Progress)
			if len(heard) == 2 {
				close(twice)
			}
		},
	})
	var err error
	session, err = client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		log.Fatal(err)
	}
	seen["version"] = session.InitializeResult().ProtocolVersion
	seen["server"] = session.InitializeResult().ServerInfo.Name
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	names := []string{}
	for _, one := range list.Tools {
		names = append(names, one.Name)
	}
	seen["tools"] = names
	seen["success"] = run("echo out; echo err >&2; exit 3")
	seen["failure"] = tool("exec", args{"command": ""})
	seen["unfit"] = tool("exec", args{"command": "x", "timeout_ms": "x"})[0]
	seen["timeout"] = object(tool("exec", args{"command": "echo part; exec sleep 1000", "timeout_ms": 2000})[1])
	seen["background"] = run("echo soon; (sleep 0.5; echo late) &")
	seen["write"] = tool("write_file", args{"path": folder + "/a/b", "content": "caf\u00e9"})
	seen["read"] = tool("read_file", args{"path": folder + "/a/b"})
	seen["list"] = object(tool("list_dir", args{"path": folder + "/a"})[1])
	seen["skill"] = tool("get_skill", args{"name": "../pdf"})

	long := make(chan []string)
	go func() {
		long <- told(call(ctx, "exec", args{"command": waits("long")}, mcp.Meta{"progressToken": "long"}))
	}()
	<-twice
	lock.Lock()
	seen["progress_grows"] = heard[1] > heard[0]
	lock.Unlock()
	tool("write_file", args{"path": folder + "/long", "content": ""})
	seen["long"] = object((<-long)[1])["stdout"]

	// It ends by itself: a POST right after the cut may meet a connection that is
	// cut already, and nobody repeats it.
	go func() {
		long <- told(call(ctx, "exec", args{"command": "sleep 4; echo through"}, mcp.Meta{"progressToken": "lost"}))
	}()
	<-lost
	conn, err := net.Dial("tcp", "127.0.0.1:"+cut)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = io.ReadAll(conn)
	seen["lost"] = object((<-long)[1])["stdout"]

	leaving, leave := context.WithCancel(ctx)
	go func() {
		long <- told(call(leaving, "exec", args{"command": waits("left") + "; touch " + folder + "/went-on"}, nil))
	}()
	begun("left")
	leave()
	<-long
	tool("write_file", args{"path": folder + "/left", "content": ""})
	seen["left"] = run("while [ ! -e " + folder + "/went-on ]; do sleep 0.05; done; echo went on")
	if err := session.Close(); err != nil {
		log.Fatal(err)
	}
	out, _ := json.Marshal(seen)
	fmt.Println(string(out))
}
