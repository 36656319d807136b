//go:build !operator

package main

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Record of the reconcilers' reads: the round of each ConfigMap for each controller, and the times.
type seen struct {
	reconciles atomic.Int64
	lock       sync.Mutex
	byName     map[[2]int]int
	// Number, round and time of each read.
	read [][3]int64
}

func (s *seen) reconciled(controller int, message *corev1.ConfigMap) {
	now := monotonic()
	s.reconciles.Add(1)
	name, isMessage := strings.CutPrefix(message.Name, "message-")
	number, err := strconv.Atoi(name)
	round, errRound := strconv.Atoi(message.Data["round"])
	if !isMessage || err != nil || errRound != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if round > 0 {
		s.read = append(s.read, [3]int64{int64(number), int64(round), now.Nanoseconds()})
	}
	s.byName[[2]int{controller, number}] = round
}

func (s *seen) count(round int) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	count := 0
	for _, at := range s.byName {
		if at >= round {
			count++
		}
	}
	return count
}

// Running controllers.
type messages struct {
	seen        *seen
	controllers int
}

func startMessages(in *requests, a ask) (*messages, error) {
	manager, err := newManager(in, a, ctrl.Options{Metrics: noServer})
	if err != nil {
		return nil, err
	}
	started := &messages{&seen{byName: map[[2]int]int{}}, a.number("controllers")}
	reader := manager.GetClient()
	for number := range started.controllers {
		read := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var message corev1.ConfigMap
			if err := reader.Get(ctx, request.NamespacedName, &message); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			started.seen.reconciled(number, &message)
			return reconcile.Result{}, nil
		})
		err := ctrl.NewControllerManagedBy(manager).
			For(&corev1.ConfigMap{}).
			Named("messages-" + strconv.Itoa(number)).
			WithOptions(controller.Options{MaxConcurrentReconciles: a.number("workers")}).
			Complete(read)
		if err != nil {
			return nil, err
		}
	}
	run(manager, context.Background())
	return started, nil
}

// Waits until each controller has read the requested number of ConfigMaps in this or a later round. Returns the number of
// reconciles so far.
func (m *messages) wait(a ask) figures {
	for m.seen.count(a.number("round")) < a.number("count")*m.controllers {
		time.Sleep(5 * time.Millisecond)
	}
	return figures{"reconciles": m.seen.reconciles.Load()}
}

// Returns and clears the reads: number, round, and time on the monotonic clock.
func (m *messages) reads() figures {
	m.seen.lock.Lock()
	defer m.seen.lock.Unlock()
	read := m.seen.read
	m.seen.read = nil
	return figures{"reads": read}
}
