// What an agent in Go does with a session's sandbox, written from the contract:
// it asks until there is a URL, remembers it, speaks MCP there over plain HTTP,
// and deletes the session.
//
//	session URL SESSION USER AGENT
//
// It has no credential and reads nothing of an answer but mcp_url.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const protocol = "2025-06-18"

type endpoint struct {
	SandboxID string            `json:"sandbox_id"`
	MCPURL    string            `json:"mcp_url"`
	Protocol  string            `json:"protocol"`
	Headers   map[string]string `json:"headers,omitempty"`
	Ready     bool              `json:"ready"`
}

type agent struct {
	base, session, user, name string
	client                    *http.Client
	mcpSession                string
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func (a *agent) ask(method string) (int, []byte) {
	path := a.base + "/api/sessions/" + url.PathEscape(a.session)
	if method != http.MethodDelete {
		path += "/sandbox"
	}
	request, err := http.NewRequest(method, path+"?user_id="+
		url.QueryEscape(a.user), nil)
	if err != nil {
		fail("%v", err)
	}
	request.Header.Set("X-Agent-Name", a.name)
	answer, err := a.client.Do(request)
	if err != nil {
		fail("%s: %v", method, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		fail("%s: %v", method, err)
	}
	return answer.StatusCode, body
}

// provision asks until there is a URL, as long as the answers say "not yet".
func (a *agent) provision() endpoint {
	for end := time.Now().Add(time.Minute); ; {
		code, body := a.ask(http.MethodPost)
		if code != http.StatusOK && code != http.StatusAccepted {
			fail("POST: %d %s", code, body)
		}
		var got endpoint
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			fail("POST: %s: %v", body, err)
		}
		if got.MCPURL != "" {
			return got
		}
		if time.Now().After(end) {
			fail("no sandbox within a minute: %s", body)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// call sends one message of MCP's streamable HTTP and returns its answer.
func (a *agent) call(target string, message map[string]any) map[string]any {
	text, _ := json.Marshal(message)
	request, err := http.NewRequest(http.MethodPost, target,
		bytes.NewReader(text))
	if err != nil {
		fail("%v", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if a.mcpSession != "" {
		request.Header.Set("Mcp-Session-Id", a.mcpSession)
		request.Header.Set("Mcp-Protocol-Version", protocol)
	}
	answer, err := a.client.Do(request)
	if err != nil {
		fail("MCP: %v", err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode/100 != 2 {
		fail("MCP: %d %s", answer.StatusCode, body)
	}
	if id := answer.Header.Get("Mcp-Session-Id"); id != "" {
		a.mcpSession = id
	}
	var got map[string]any
	data := string(body)
	if strings.HasPrefix(answer.Header.Get("Content-Type"),
		"text/event-stream") {
		for _, line := range strings.Split(data, "\n") {
			if rest, found := strings.CutPrefix(line, "data:"); found {
				data = rest
			}
		}
	}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			fail("MCP: %s: %v", body, err)
		}
		if got["error"] != nil {
			fail("MCP: %s", body)
		}
	}
	return got
}

func (a *agent) useTools(target string) {
	result := a.call(target, map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "initialize",
		"params": map[string]any{
			"protocolVersion": protocol,
			"capabilities":    map[string]any{},
			"clientInfo":      map[string]any{"name": "session", "version": "1"},
		}})
	if result["result"].(map[string]any)["serverInfo"] == nil {
		fail("initialize: %v", result)
	}
	a.call(target, map[string]any{
		"jsonrpc": "2.0", "method": "notifications/initialized"})
	result = a.call(target, map[string]any{
		"jsonrpc": "2.0", "id": 2, "method": "tools/call",
		"params": map[string]any{"name": "exec",
			"arguments": map[string]any{"command": "echo $((6 * 7))"}}})
	if text := fmt.Sprint(result["result"]); !strings.Contains(text, "42") {
		fail("exec: %s", text)
	}
}

func main() {
	if len(os.Args) != 5 {
		fail("usage: session URL SESSION USER AGENT")
	}
	a := &agent{base: os.Args[1], session: os.Args[2], user: os.Args[3],
		name: os.Args[4], client: &http.Client{Timeout: time.Minute}}
	first := a.provision()
	a.useTools(first.MCPURL)
	if again := a.provision(); again.MCPURL != first.MCPURL ||
		again.SandboxID != first.SandboxID {
		fail("another sandbox: %v, then %v", first, again)
	}
	if code, body := a.ask(http.MethodGet); code != http.StatusOK {
		fail("GET: %d %s", code, body)
	}
	for range 2 {
		if code, body := a.ask(http.MethodDelete); code != http.StatusOK {
			fail("DELETE: %d %s", code, body)
		}
	}
	if code, body := a.ask(http.MethodGet); code != http.StatusNotFound {
		fail("GET after DELETE: %d %s", code, body)
	}
	fmt.Println("ok")
}
