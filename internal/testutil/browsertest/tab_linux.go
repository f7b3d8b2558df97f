package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// screenshotsEnv names a folder that keeps the pictures the tests take.
const screenshotsEnv = "HOPBENCH_UI_SCREENSHOTS"

// Tab is a page of a headless Chromium, which is spoken to over a pipe.
type Tab struct {
	Close func() // ends the browser before the test ends

	t       testing.TB
	out     *os.File
	session string

	mu      sync.Mutex
	next    int
	answers map[int]chan answer
	logged  []string // to the console, and what the policy blocked
	asked   []string // addresses that were requested
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// OpenTab starts Chromium, or skips. It ends with the test.
func OpenTab(t testing.TB) *Tab {
	t.Helper()
	program := Program(t)
	toRead, in, err := os.Pipe()
	testutil.OK(t, err)
	out, toWrite, err := os.Pipe()
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, toWrite} // 3 and 4
	cmd.WaitDelay = 5 * time.Second
	testutil.OK(t, cmd.Start())
	toRead.Close()
	toWrite.Close()
	b := &Tab{t: t, out: in, answers: map[int]chan answer{}}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		b.read(out)
	}()
	b.Close = sync.OnceFunc(func() {
		// In order, so that no process of it still writes into its folder; or else not.
		late := time.AfterFunc(20*time.Second, cancel)
		b.session = ""
		_ = b.Try("Browser.close", nil, nil)
		in.Close()
		_ = cmd.Wait() // how it ended is not what is tested
		late.Stop()
		cancel()
		out.Close()
		<-reading
	})
	t.Cleanup(b.Close)
	var target struct{ TargetID, SessionID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(domain+".enable", nil, nil)
	}
	return b
}

// For has another test look at the page. What was asked for before is forgotten.
func (b *Tab) For(t testing.TB) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.t, b.asked = t, nil
}

func (b *Tab) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			break
		}
		var a answer
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &a) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case a.ID != 0:
			if waiting := b.answers[a.ID]; waiting != nil {
				waiting <- a
				delete(b.answers, a.ID)
			}
		case a.Method == "Log.entryAdded", a.Method == "Runtime.consoleAPICalled", a.Method == "Runtime.exceptionThrown":
			b.logged = append(b.logged, string(a.Params))
		case a.Method == "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			if json.Unmarshal(a.Params, &p) == nil {
				b.asked = append(b.asked, p.Request.URL)
			}
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, waiting := range b.answers {
		close(waiting)
		delete(b.answers, id)
	}
	b.answers = nil
}

// Call calls a method of the browser's and waits for its answer.
func (b *Tab) Call(method string, params, into any) {
	b.t.Helper()
	testutil.OK(b.t, b.Try(method, params, into))
}

// Try is Call of what may fail, as on a page that is just being left.
func (b *Tab) Try(method string, params, into any) error {
	b.mu.Lock()
	if b.answers == nil {
		b.mu.Unlock()
		return fmt.Errorf("%s: the browser has ended", method)
	}
	b.next++
	waiting := make(chan answer, 1)
	b.answers[b.next] = waiting
	message := map[string]any{"id": b.next, "method": method}
	b.mu.Unlock()
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := b.out.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case a, ok := <-waiting:
		if !ok || a.Error != nil {
			return fmt.Errorf("%s: %v %+v", method, ok, a.Error)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(a.Result, into)
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("%s: no answer", method)
	}
}

// Show has the page as wide as a window, in a colour scheme.
func (b *Tab) Show(width, height int, scheme string) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Open goes to an address. It does not wait for the page.
func (b *Tab) Open(url string) {
	b.t.Helper()
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval is the value of an expression on the page, as JSON.
func (b *Tab) Eval(expression string, into any) {
	b.t.Helper()
	var a struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails any
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &a)
	if a.ExceptionDetails != nil {
		b.t.Fatalf("%s: %v", expression, a.ExceptionDetails)
	}
	testutil.OK(b.t, json.Unmarshal(a.Result.Value, into))
}

// Until waits for an expression to become true.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	for range 1200 {
		var a struct{ Result struct{ Value bool } }
		err := b.Try("Runtime.evaluate", map[string]any{"expression": "!!(" + expression + ")", "returnByValue": true}, &a)
		if err == nil && a.Result.Value {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	var text string
	b.Eval("document.body.innerText", &text)
	b.t.Fatalf("it never came that %s:\n%s", expression, text)
}

// Picture takes one of the page as it is, and says how many colours it has.
func (b *Tab) Picture(name string) int {
	b.t.Helper()
	var shot struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	testutil.OK(b.t, err)
	if folder := os.Getenv(screenshotsEnv); folder != "" {
		testutil.OK(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o666))
	}
	return Colours(b.t, png)
}

// Asked are the addresses that were requested.
func (b *Tab) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// Quiet holds that nothing was logged and nothing asked for elsewhere.
func (b *Tab) Quiet(own string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.logged {
		b.t.Errorf("the browser logged %s", l)
	}
	for _, url := range b.asked {
		if !strings.HasPrefix(url, own) && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page asked for %s", url)
		}
	}
}
