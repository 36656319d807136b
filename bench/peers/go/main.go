// controller-runtime's side of the benchmark: steps come in on standard input, figures go out. See bench/README.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// An ask is a step, and its parameters.
type ask struct {
	Step string         `json:"do"`
	With map[string]any `json:"with"`
}

func (a ask) text(name string) string {
	text, _ := a.With[name].(string)
	return text
}

func (a ask) number(name string) int {
	number, _ := a.With[name].(float64)
	return int(number)
}

type figures map[string]any

// A reply is one of the first three, and the CPU seconds of the process until then.
type reply struct {
	Figures     figures `json:"figures,omitempty"`
	Unsupported string  `json:"unsupported,omitempty"`
	Error       string  `json:"error,omitempty"`
	CPUSeconds  float64 `json:"cpu_seconds"`
}

func main() {
	ctrl.SetLogger(logr.Discard())
	// The driver closes standard input when it ends, however it does; the process ends then too, in the middle of a step.
	lines := make(chan []byte)
	go func() {
		input := bufio.NewScanner(os.Stdin)
		for input.Scan() {
			lines <- append([]byte(nil), input.Bytes()...)
		}
		os.Exit(0)
	}()
	output := json.NewEncoder(os.Stdout)
	peer := &peer{}
	for line := range lines {
		var a ask
		r := reply{}
		if err := json.Unmarshal(line, &a); err != nil {
			r.Error = err.Error()
		} else {
			r = peer.step(a)
		}
		r.CPUSeconds = cpu().Seconds()
		if r.Error == "" && r.Unsupported == "" && len(r.Figures) == 0 {
			r.Figures = figures{"done": 1}
		}
		if err := output.Encode(r); err != nil {
			os.Exit(1)
		}
	}
}

// A peer is what was started so far, and runs until the process ends.
type peer struct {
	requests requests
	cache    *podCache
	messages *messages
	leader   *candidate
}

func (p *peer) step(a ask) reply {
	measured, err := p.carryOut(a)
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Figures: measured}
}

func (p *peer) carryOut(a ask) (figures, error) {
	if workload, ok := queueWorkloads[a.Step]; ok {
		return workload(a.text("variant"), a.number("keys")), nil
	}
	switch a.Step {
	case "cache.start":
		cache, measured, err := startPodCache(&p.requests, a)
		p.cache = cache
		return measured, err
	case "cache.read":
		return p.cache.read()
	case "cache.wait":
		return nil, p.cache.wait(a)
	case "messages.start":
		messages, err := startMessages(&p.requests, a)
		p.messages = messages
		return nil, err
	case "messages.wait":
		return p.messages.wait(a), nil
	case "messages.reads":
		return p.messages.reads(), nil
	case "guestbook.start":
		return nil, startGuestbook(&p.requests, a)
	case "leader.start":
		candidate, err := startCandidate(&p.requests, a)
		p.leader = candidate
		return nil, err
	case "leader.wait":
		<-p.leader.reconciled
		return nil, nil
	case "settle":
		debug.FreeOSMemory()
		return nil, nil
	case "requests":
		return figures{"requests": p.requests.sent()}, nil
	}
	return nil, fmt.Errorf("%s: no such step", a.Step)
}
