//! The operators of `examples/` that are libraries, and the template of `cargo operator new`.

use kube::CustomResourceExt;

use crate::Audited;

pub(crate) fn all() -> Vec<Audited> {
    vec![
        Audited {
            name: "guestbook",
            definitions: vec![guestbook::api::Guestbook::crd()],
            add: |manager| Ok(guestbook::controller::add_to(manager)?),
            steps: "
                apply /apis/example.com/v1/namespaces/guestbook/guestbooks/a {spec: {greeting: hello, replicas: 1}}
                until /apis/example.com/v1/namespaces/guestbook/guestbooks/a /status/conditions/0/status True
                exists /apis/apps/v1/namespaces/guestbook/deployments/a
                delete /apis/example.com/v1/namespaces/guestbook/guestbooks/a
                gone /apis/example.com/v1/namespaces/guestbook/guestbooks/a
            ",
        },
        Audited {
            name: "secret-sync",
            definitions: Vec::new(),
            add: secret_sync::add_to,
            steps: "
                apply /api/v1/namespaces/vault {}
                apply /api/v1/namespaces/vault/secrets/token {data: {key: b25l}}
                apply /api/v1/namespaces/red {metadata: {labels: {example.com/wants-secret: token}}}
                until /api/v1/namespaces/red/secrets/token /data/key b25l
            ",
        },
        Audited {
            name: "metadata-watcher",
            definitions: Vec::new(),
            add: |manager| Ok(metadata_watcher::add_to(manager)?),
            steps: "
                apply /api/v1/namespaces/metadata-watcher/secrets/old {metadata: {annotations: {example.com/expires: '2020-01-31T12:00:00Z'}}}
                gone /api/v1/namespaces/metadata-watcher/secrets/old
            ",
        },
        Audited {
            name: "external-source",
            definitions: Vec::new(),
            add: |manager| {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/files");
                Ok(external_source::add_to(manager, folder.as_ref())?)
            },
            steps: "
                until /api/v1/namespaces/default/configmaps/a /data/text text
                apply /api/v1/namespaces/default/configmaps/b {metadata: {labels: {app.kubernetes.io/managed-by: external-source}}}
                gone /api/v1/namespaces/default/configmaps/b
            ",
        },
        Audited {
            name: "webhooks",
            // Objects of the stored version are not converted.
            definitions: webhooks::definition().into_iter().collect(),
            add: |manager| Ok(webhooks::add_to(manager)?),
            steps: "
                apply /apis/example.com/v2/namespaces/webhooks/websites/a {spec: {image: {repository: nginx}, replicas: 1}}
                exists /apis/apps/v1/namespaces/webhooks/deployments/a
            ",
        },
        Audited {
            name: "widget-operator",
            definitions: vec![widget_operator::Widget::crd()],
            add: |manager| Ok(widget_operator::widget::add_to(manager)?),
            steps: "
                apply /apis/example.com/v1/namespaces/widget-operator/widgets/a {spec: {greeting: hello}}
                until /apis/example.com/v1/namespaces/widget-operator/widgets/a /status/conditions/0/status True
            ",
        },
    ]
}
