//! Test environments for Kubernetes controllers.
