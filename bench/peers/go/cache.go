//go:build !operator

package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// podCache is a manager's cache of pods, with a controller that a predicate on the generation keeps idle.
type podCache struct{ client client.Client }

var noServer = metricsserver.Options{BindAddress: "0"}

func startPodCache(in *requests, a ask) (*podCache, figures, error) {
	manager, err := newManager(in, a, ctrl.Options{Metrics: noServer})
	if err != nil {
		return nil, nil, err
	}
	idle := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	pods := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}, pods).Complete(idle); err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	slice := func(object client.Object) []string { return []string{object.GetLabels()["slice"]} }
	start := time.Now()
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "slice", slice); err != nil {
		return nil, nil, err
	}
	run(manager, ctx)
	manager.GetCache().WaitForCacheSync(ctx)
	return &podCache{manager.GetClient()}, figures{"synced_s": time.Since(start).Seconds()}, nil
}

// Measures reads in nanoseconds: one object, all objects, and objects with one value of the index.
func (c *podCache) read() (figures, error) {
	ctx := context.Background()
	var all corev1.PodList
	start := time.Now()
	if err := c.client.List(ctx, &all); err != nil {
		return nil, err
	}
	list := time.Since(start)
	ks := make([]client.ObjectKey, len(all.Items))
	for i := range all.Items {
		ks[i] = client.ObjectKeyFromObject(&all.Items[i])
	}
	all = corev1.PodList{}
	slices.SortFunc(ks, func(a, b client.ObjectKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	get := func(i int) error {
		var pod corev1.Pod
		return c.client.Get(ctx, ks[i*7919%len(ks)], &pod)
	}
	cold, err := per(min(20_000, len(ks)), get)
	if err != nil {
		return nil, err
	}
	if _, err := per(200, func(i int) error { return get(i % 200) }); err != nil {
		return nil, err
	}
	hot, err := per(50_000, func(i int) error { return get(i % 200) })
	if err != nil {
		return nil, err
	}
	var front corev1.PodList
	index, err := per(1, func(int) error {
		return c.client.List(ctx, &front, client.MatchingFields{"slice": "front"})
	})
	if err != nil {
		return nil, err
	}
	return figures{
		"cold_get_ns": cold,
		"hot_get_ns":  hot,
		"index_ns":    index,
		"indexed":     len(front.Items),
		"list_ns":     float64(list.Nanoseconds()) / float64(len(ks)),
	}, nil
}

// Waits until the cache holds this version of a pod.
func (c *podCache) wait(a ask) error {
	k := client.ObjectKey{Namespace: a.text("namespace"), Name: a.text("name")}
	for {
		var pod corev1.Pod
		if err := c.client.Get(context.Background(), k, &pod); err != nil {
			return err
		}
		if pod.ResourceVersion == a.text("resource_version") {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Mean nanoseconds of a repeated operation.
func per(times int, operation func(int) error) (float64, error) {
	start := time.Now()
	for i := range times {
		if err := operation(i); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(times), nil
}
