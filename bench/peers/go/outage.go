//go:build !operator

package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Successfully reconciled objects, and the time of the latest addition.
type succeeded struct {
	lock  sync.Mutex
	names map[string]bool
	at    time.Duration
}

func (s *succeeded) add(name string) {
	now := monotonic()
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.names[name] {
		s.names[name] = true
		s.at = now
	}
}

func (s *succeeded) wait(a ask) figures {
	for {
		s.lock.Lock()
		count, at := len(s.names), s.at
		s.lock.Unlock()
		if count >= a.number("count") {
			return figures{"succeeded": count, "at": at.Nanoseconds()}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Runs a controller of ConfigMaps. Its reconcile reads its object from the API server through the relay, not from the cache.
func startOutage(in *requests, a ask) (*succeeded, error) {
	reader, err := newClient(a.text("through"))
	if err != nil {
		return nil, err
	}
	manager, err := newManager(in, a, ctrl.Options{Metrics: noServer})
	if err != nil {
		return nil, err
	}
	done := &succeeded{names: map[string]bool{}}
	read := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		var message corev1.ConfigMap
		if err := reader.Get(ctx, request.NamespacedName, &message); err != nil {
			return reconcile.Result{}, err
		}
		done.add(request.Name)
		return reconcile.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(read); err != nil {
		return nil, err
	}
	run(manager, context.Background())
	return done, nil
}

// Creates a client with defaults and without a rate limit, like that of a manager.
func newClient(kubeconfig string) (client.Client, error) {
	config, err := cluster(ask{With: map[string]any{"kubeconfig": kubeconfig}})
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{})
}

// A client that has sent one request, so that its connection is open.
type request struct{ client client.Client }

var firstMessage = client.ObjectKey{Namespace: "messages", Name: "message-000000"}

func startRequest(a ask) (*request, error) {
	started, err := newClient(a.text("kubeconfig"))
	if err != nil {
		return nil, err
	}
	return &request{started}, started.Get(context.Background(), firstMessage, &corev1.ConfigMap{})
}

// Sends the request again, and returns the time at which it ended, in an answer or an error.
func (r *request) again() figures {
	_ = r.client.Get(context.Background(), firstMessage, &corev1.ConfigMap{})
	return figures{"at": monotonic().Nanoseconds()}
}
