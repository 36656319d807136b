//go:build operator

package main

import "fmt"

// A peer that is the operator of guestbooks alone, as it is deployed: what a program has in memory is what runs and the
// code around that, and in a pod nobody reads a kubeconfig.
type peer struct{ requests requests }

func (p *peer) carryOut(a ask) (figures, error) {
	switch a.Step {
	case "guestbook.start":
		return nil, startGuestbook(&p.requests, a)
	case "requests":
		return figures{"requests": p.requests.sent()}, nil
	}
	return nil, fmt.Errorf("%s: this program is the operator alone", a.Step)
}
