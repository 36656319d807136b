//go:build !operator

package main

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A candidate for a lease, with a controller that shows when the process leads. In variant `alone` there is no election, and the
// controller shows when it starts to work.
type candidate struct{ reconciled chan struct{} }

func startCandidate(in *requests, a ask) (*candidate, error) {
	options := ctrl.Options{Metrics: noServer}
	if a.text("variant") == "elected" {
		options.LeaderElection = true
		options.LeaderElectionID = "bench"
		options.LeaderElectionNamespace = "default"
	}
	manager, err := newManager(in, a, options)
	if err != nil {
		return nil, err
	}
	started := &candidate{make(chan struct{})}
	var once sync.Once
	note := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		once.Do(func() { close(started.reconciled) })
		return reconcile.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(note); err != nil {
		return nil, err
	}
	run(manager, ctrl.SetupSignalHandler())
	return started, nil
}
