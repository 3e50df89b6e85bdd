// sandbox-mcp: an MCP server from the official SDK, at the version that kagent's
// own server is built with, and with that server's five tools, written from what is
// known of it: names, arguments, texts, semantics. The tests compare
// warmpool-runtime with it, and run it as a template's program.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type execArgs struct {
	Command    string `json:"command" jsonschema:"the shell command"`
	TimeoutMs  int    `json:"timeout_ms,omitempty" jsonschema:"time limit in milliseconds"`
	WorkingDir string `json:"working_dir,omitempty" jsonschema:"folder to run in"`
}

type execResult struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

type readArgs struct {
	Path string `json:"path" jsonschema:"path of the file"`
}

type writeArgs struct {
	Path    string `json:"path" jsonschema:"path of the file"`
	Content string `json:"content" jsonschema:"the new content"`
}

type listArgs struct {
	Path string `json:"path,omitempty" jsonschema:"path of the directory"`
}

type skillArgs struct {
	Name string `json:"name" jsonschema:"name of the skill"`
}

type entry struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func asJSON(v any) (*mcp.CallToolResult, any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	return text(string(data)), nil, nil
}

func runCommand(_ context.Context, _ *mcp.CallToolRequest, in execArgs) (*mcp.CallToolResult, any, error) {
	if in.Command == "" {
		return nil, nil, errors.New("command must not be empty")
	}
	ctx := context.Background() // A client that leaves does not end its command.
	if in.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(in.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", in.Command)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = in.WorkingDir, &stdout, &stderr
	code := 0
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return nil, nil, fmt.Errorf("failed to run command: %w", err)
		}
		code = exit.ExitCode()
	}
	return asJSON(execResult{stdout.String(), stderr.String(), code})
}

func readFile(_ context.Context, _ *mcp.CallToolRequest, in readArgs) (*mcp.CallToolResult, any, error) {
	if in.Path == "" {
		return nil, nil, errors.New("path must not be empty")
	}
	data, err := os.ReadFile(in.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to read file %s: %w", in.Path, err)
	}
	return text(string(data)), nil, nil
}

func writeFile(_ context.Context, _ *mcp.CallToolRequest, in writeArgs) (*mcp.CallToolResult, any, error) {
	if in.Path == "" {
		return nil, nil, errors.New("path must not be empty")
	}
	dir := filepath.Dir(in.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("failed to create directory %s: %w", dir, err)
	}
	if err := os.WriteFile(in.Path, []byte(in.Content), 0o644); err != nil {
		return nil, nil, fmt.Errorf("failed to write file %s: %w", in.Path, err)
	}
	return asJSON(map[string]bool{"ok": true})
}

func listDir(_ context.Context, _ *mcp.CallToolRequest, in listArgs) (*mcp.CallToolResult, any, error) {
	if in.Path == "" {
		in.Path = "."
	}
	found, err := os.ReadDir(in.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to list directory %s: %w", in.Path, err)
	}
	entries := []entry{}
	for _, one := range found {
		kind := "file"
		if one.IsDir() {
			kind = "dir"
		}
		if info, err := one.Info(); err == nil {
			entries = append(entries, entry{one.Name(), kind, info.Size()})
		}
	}
	return asJSON(map[string]any{"entries": entries})
}

// skillHead gives the name and description between two lines "---".
func skillHead(path, folder string) (name, description string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	name = folder
	inside := false
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		if line == "---" {
			if inside {
				break
			}
			inside = true
			continue
		}
		key, value, found := strings.Cut(line, ":")
		if !inside || !found {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(key) {
		case "name":
			name = value
		case "description":
			description = value
		}
	}
	return name, description, nil
}

func skillText(dir string) string {
	about := "Load the full content of a skill by name."
	folders, _ := os.ReadDir(dir)
	lines := []string{}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		name, description, err := skillHead(filepath.Join(dir, folder.Name(), "SKILL.md"), folder.Name())
		if err == nil {
			lines = append(lines, fmt.Sprintf("- %s: %s", name, description))
		}
	}
	if len(lines) > 0 {
		about += "\n\nAvailable skills:\n" + strings.Join(lines, "\n")
	}
	return about
}

func getSkill(dir string) mcp.ToolHandlerFor[skillArgs, any] {
	return func(_ context.Context, _ *mcp.CallToolRequest, in skillArgs) (*mcp.CallToolResult, any, error) {
		if strings.Contains(in.Name, "..") || strings.ContainsAny(in.Name, `/\`) {
			return nil, nil, fmt.Errorf("invalid skill name: %s", in.Name)
		}
		data, err := os.ReadFile(filepath.Join(dir, in.Name, "SKILL.md"))
		if err != nil {
			return nil, nil, fmt.Errorf("failed to read skill %s: %w", in.Name, err)
		}
		return text(string(data)), nil, nil
	}
}

func fromEnv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	skills := fromEnv("SKILLS_DIR", "/skills")
	server := mcp.NewServer(&mcp.Implementation{Name: "kagent-sandbox-mcp", Version: "0.1.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "exec", Description: "Execute a shell command in the sandbox"}, runCommand)
	mcp.AddTool(server, &mcp.Tool{Name: "read_file", Description: "Read the content of a file"}, readFile)
	mcp.AddTool(server, &mcp.Tool{Name: "write_file", Description: "Write content to a file (creates parent directories if needed)"}, writeFile)
	mcp.AddTool(server, &mcp.Tool{Name: "list_dir", Description: "List entries in a directory"}, listDir)
	mcp.AddTool(server, &mcp.Tool{Name: "get_skill", Description: skillText(skills)}, getSkill(skills))
	listener, err := net.Listen("tcp", ":"+fromEnv("PORT", "8080"))
	if err != nil {
		log.Fatal(err)
	}
	if path := os.Getenv("PORT_FILE"); path != "" { // For tests that let the system choose.
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		if err := os.WriteFile(path+".new", []byte("all "+port+"\n"), 0o600); err != nil {
			log.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.Serve(listener, mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil)))
}
