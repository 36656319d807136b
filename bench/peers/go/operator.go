//go:build operator

package main

import "fmt"

// A peer that contains only the guestbook operator, as it would be deployed. Other code would add to its memory, and in a pod
// there is no kubeconfig to parse.
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
