// The controller-runtime peer: reads steps from standard input and prints figures. See bench/README.md.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// An ask is a step and its parameters.
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

// A reply has one of the first three fields, and the CPU seconds of the process so far.
type reply struct {
	Figures     figures `json:"figures,omitempty"`
	Unsupported string  `json:"unsupported,omitempty"`
	Error       string  `json:"error,omitempty"`
	CPUSeconds  float64 `json:"cpu_seconds"`
}

func main() {
	ctrl.SetLogger(logr.Discard())
	// Standard input is closed when the driver ends, even if it is killed. The process then exits, even in the middle of a step.
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

func (p *peer) step(a ask) reply {
	measured, err := p.carryOut(a)
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Figures: measured}
}
