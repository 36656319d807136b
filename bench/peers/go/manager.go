package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Counts all requests in the transport.
type requests struct{ count atomic.Int64 }

func (r *requests) sent() int64 { return r.count.Load() }

type counting struct {
	next http.RoundTripper
	in   *requests
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	c.in.count.Add(1)
	return c.next.RoundTrip(request)
}

// Creates a manager with default options on the cluster that the driver names. The defaults include content types: protobuf for
// builtin kinds, JSON for custom ones.
func newManager(in *requests, a ask, options ctrl.Options) (ctrl.Manager, error) {
	config, err := cluster(a)
	if err != nil {
		return nil, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, in} })
	return ctrl.NewManager(config, options)
}

// Returns the configuration from the driver's kubeconfig, or that of a program in a pod (client-go's own function reads it from a
// fixed folder). There is no rate limit, which is controller-runtime's default.
func cluster(a ask) (*rest.Config, error) {
	if host := a.text("host"); host != "" {
		secrets := a.text("secrets")
		token, err := os.ReadFile(filepath.Join(secrets, "token"))
		return &rest.Config{
			Host:            host,
			QPS:             -1,
			TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(secrets, "ca.crt")},
			BearerToken:     string(token),
			BearerTokenFile: filepath.Join(secrets, "token"),
		}, err
	}
	if err := os.Setenv("KUBECONFIG", a.text("kubeconfig")); err != nil {
		return nil, err
	}
	return ctrl.GetConfig()
}

// Runs a manager until the process ends. If the manager fails, the process exits, which the driver notices.
func run(manager ctrl.Manager, ctx context.Context) {
	go func() {
		if err := manager.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}()
}

// CPU time of this process so far, user and system.
func cpu() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// Monotonic clock, which all processes share.
func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
