//go:build !operator

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A SiteV2 is a Site in version v2, the hub of conversions.
type SiteV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SiteSpecV2 `json:"spec"`
}

type SiteSpecV2 struct {
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
	Replicas *int32 `json:"replicas,omitempty"`
}

func (s *SiteV2) Hub() {}

func (s *SiteV2) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if s.Spec.Replicas != nil {
		replicas := *s.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	return &out
}

// A SiteV1 is a Site in version v1.
type SiteV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SiteSpecV1 `json:"spec"`
}

type SiteSpecV1 struct {
	// host:port
	Address  string `json:"address"`
	Replicas *int32 `json:"replicas,omitempty"`
}

func (s *SiteV1) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if s.Spec.Replicas != nil {
		replicas := *s.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	return &out
}

func (s *SiteV1) ConvertTo(hub conversion.Hub) error {
	v2 := hub.(*SiteV2)
	v2.ObjectMeta = s.ObjectMeta
	host, port, _ := strings.Cut(s.Spec.Address, ":")
	number, _ := strconv.ParseUint(port, 10, 16)
	v2.Spec = SiteSpecV2{Host: host, Port: uint16(number), Replicas: s.Spec.Replicas}
	return nil
}

func (s *SiteV1) ConvertFrom(hub conversion.Hub) error {
	v2 := hub.(*SiteV2)
	s.ObjectMeta = v2.ObjectMeta
	s.Spec = SiteSpecV1{Address: fmt.Sprintf("%s:%d", v2.Spec.Host, v2.Spec.Port), Replicas: v2.Spec.Replicas}
	return nil
}

type siteWebhooks struct{}

func (siteWebhooks) Default(_ context.Context, site *SiteV2) error {
	if site.Spec.Replicas == nil {
		one := int32(1)
		site.Spec.Replicas = &one
	}
	return nil
}

func (siteWebhooks) ValidateCreate(_ context.Context, site *SiteV2) (admission.Warnings, error) {
	if replicas := site.Spec.Replicas; replicas != nil && (*replicas < 0 || *replicas > 9) {
		kind := schema.GroupKind{Group: siteGroup, Kind: "Site"}
		return nil, apierrors.NewInvalid(kind, site.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), *replicas, "must be from 0 to 9"),
		})
	}
	return nil, nil
}

func (w siteWebhooks) ValidateUpdate(ctx context.Context, _, site *SiteV2) (admission.Warnings, error) {
	return w.ValidateCreate(ctx, site)
}

func (siteWebhooks) ValidateDelete(context.Context, *SiteV2) (admission.Warnings, error) {
	return nil, nil
}

const siteGroup = "sites.example.com"

type siteListV2 struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SiteV2 `json:"items"`
}

func (l *siteListV2) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]SiteV2, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*SiteV2)
	}
	return &out
}

// Serves the webhooks of Sites at the port that the driver names, with the certificate in its folder.
func startWebhooks(in *requests, a ask) error {
	v1 := schema.GroupVersion{Group: siteGroup, Version: "v1"}
	v2 := schema.GroupVersion{Group: siteGroup, Version: "v2"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1.WithKind("Site"), &SiteV1{})
	scheme.AddKnownTypeWithName(v2.WithKind("Site"), &SiteV2{})
	scheme.AddKnownTypeWithName(v2.WithKind("SiteList"), &siteListV2{})
	metav1.AddToGroupVersion(scheme, v1)
	metav1.AddToGroupVersion(scheme, v2)
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: a.number("port"), CertDir: a.text("certificates")})
	manager, err := newManager(in, a, ctrl.Options{Scheme: scheme, Metrics: noServer, WebhookServer: server})
	if err != nil {
		return err
	}
	webhooks := ctrl.NewWebhookManagedBy(manager, &SiteV2{}).WithDefaulter(siteWebhooks{}).WithValidator(siteWebhooks{})
	if err := webhooks.Complete(); err != nil {
		return err
	}
	done := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&SiteV2{}).Complete(done); err != nil {
		return err
	}
	run(manager, context.Background())
	return nil
}
