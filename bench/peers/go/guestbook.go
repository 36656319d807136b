//go:build operator

package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Guestbook specifies a page and the number of pods that serve it.
type Guestbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GuestbookSpec   `json:"spec"`
	Status GuestbookStatus `json:"status,omitempty"`
}

type GuestbookSpec struct {
	Greeting string `json:"greeting"`
	Replicas int32  `json:"replicas"`
}

type GuestbookStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

type GuestbookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Guestbook `json:"items"`
}

func (g *Guestbook) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *GuestbookList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Guestbook, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Guestbook)
	}
	return &out
}

var group = schema.GroupVersion{Group: "bench.example.com", Version: "v1"}

const fieldManager = client.FieldOwner("guestbook-operator")

type guestbookReconciler struct{ client.Client }

func (r guestbookReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var guestbook Guestbook
	if err := r.Get(ctx, request.NamespacedName, &guestbook); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Apply(ctx, page(&guestbook), fieldManager, client.ForceOwnership); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Apply(ctx, server(&guestbook), fieldManager, client.ForceOwnership); err != nil {
		return reconcile.Result{}, err
	}
	if guestbook.Status.ObservedGeneration == guestbook.Generation {
		return reconcile.Result{}, nil
	}
	status := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group.String(),
		"kind":       "Guestbook",
		"metadata":   map[string]any{"name": guestbook.Name, "namespace": guestbook.Namespace},
		"status":     map[string]any{"observedGeneration": guestbook.Generation},
	}}
	apply := client.ApplyConfigurationFromUnstructured(status)
	return reconcile.Result{}, r.Status().Apply(ctx, apply, fieldManager, client.ForceOwnership)
}

func page(guestbook *Guestbook) *applycorev1.ConfigMapApplyConfiguration {
	return applycorev1.ConfigMap(guestbook.Name+"-page", guestbook.Namespace).
		WithLabels(labels(guestbook)).
		WithOwnerReferences(owner(guestbook)).
		WithData(map[string]string{"index.html": fmt.Sprintf("<h1>%s</h1>", guestbook.Spec.Greeting)})
}

func server(guestbook *Guestbook) *applyappsv1.DeploymentApplyConfiguration {
	container := applycorev1.Container().WithName("web").WithImage("registry.example.com/web:1.27")
	template := applycorev1.PodTemplateSpec().
		WithLabels(labels(guestbook)).
		WithSpec(applycorev1.PodSpec().WithContainers(container))
	return applyappsv1.Deployment(guestbook.Name+"-server", guestbook.Namespace).
		WithLabels(labels(guestbook)).
		WithOwnerReferences(owner(guestbook)).
		WithSpec(applyappsv1.DeploymentSpec().
			WithReplicas(guestbook.Spec.Replicas).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels(guestbook))).
			WithTemplate(template))
}

func labels(guestbook *Guestbook) map[string]string {
	return map[string]string{"guestbook": guestbook.Name}
}

func owner(guestbook *Guestbook) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().
		WithAPIVersion(group.String()).
		WithKind("Guestbook").
		WithName(guestbook.Name).
		WithUID(guestbook.UID).
		WithController(true)
}

// Runs a manager with the operator, and serves metrics and probes as in a deployment.
func startGuestbook(in *requests, a ask) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(group, &Guestbook{}, &GuestbookList{})
	metav1.AddToGroupVersion(scheme, group)
	manager, err := newManager(in, a, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "127.0.0.1:0"},
		HealthProbeBindAddress: "127.0.0.1:0",
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Guestbook{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Complete(guestbookReconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	run(manager, context.Background())
	return nil
}
