//go:build !operator

package main

import (
	"fmt"
	"runtime/debug"
)

// A peer holds everything started so far, which runs until the process ends.
type peer struct {
	requests requests
	cache    *podCache
	messages *messages
	leader   *candidate
	outage   *succeeded
	request  *request
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
	case "leader.start":
		candidate, err := startCandidate(&p.requests, a)
		p.leader = candidate
		return nil, err
	case "leader.wait":
		<-p.leader.reconciled
		return nil, nil
	case "outage.start":
		outage, err := startOutage(&p.requests, a)
		p.outage = outage
		return nil, err
	case "outage.wait":
		return p.outage.wait(a), nil
	case "request.start":
		request, err := startRequest(a)
		p.request = request
		return nil, err
	case "request.again":
		return p.request.again(), nil
	case "webhooks.start":
		return nil, startWebhooks(&p.requests, a)
	case "settle":
		debug.FreeOSMemory()
		return nil, nil
	case "requests":
		return figures{"requests": p.requests.sent()}, nil
	}
	return nil, fmt.Errorf("%s: no such step", a.Step)
}
