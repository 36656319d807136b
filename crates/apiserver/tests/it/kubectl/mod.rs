//! The real kubectl against the server over TCP. Skipped with a notice if there is no kubectl.
//!
//! kubectl sends builtin kinds as protobuf and custom kinds as JSON. The tests cover both.

mod session;

use expect_test::expect;

use self::session::Session;

/// A widget with this colour and a name after its shape.
fn widget(name: &str, colour: &str) -> String {
    format!(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{colour: {colour}}}\n"
    )
}

#[tokio::test]
async fn apply_creates_then_changes_then_keeps_the_object() {
    for kubectl in Session::all_with_widgets().await {
        let said = [
            kubectl.pipe("apply -f -", &widget("round", "green")).await,
            kubectl.pipe("apply -f -", &widget("round", "blue")).await,
            kubectl.pipe("apply -f -", &widget("round", "blue")).await,
        ];
        expect![[r#"
            widget.example.com/round created
            widget.example.com/round configured
            widget.example.com/round unchanged
        "#]]
        .assert_eq(&said.concat());
    }
}

#[tokio::test]
async fn the_program_is_reached_over_tls_by_users() {
    for kubectl in Session::all_over_tls().await {
        kubectl.pipe("apply -f -", include_str!("widgets.yaml")).await;
        kubectl.run("wait --for=condition=Established crd/widgets.example.com --timeout=10s").await;
        let mut watch = kubectl.follow("get widgets --watch");
        let said = [
            kubectl.pipe("apply --server-side -f -", &widget("round", "green")).await,
            // kubectl sends builtin kinds as protobuf, if its version supports that.
            kubectl.run("create configmap settings --from-literal=k=v").await,
            kubectl.run("get configmap settings -o jsonpath={.data.k}").await,
            kubectl.run("delete widget round").await,
        ];
        watch.until("round   green").await;
        watch.stop().await;
        expect![[r#"
            widget.example.com/round serverside-applied
            configmap/settings created
            vwidget.example.com "round" deleted
        "#]]
        .assert_eq(&said.concat().replace(" from default namespace", ""));
    }
}

#[tokio::test]
async fn get_prints_the_columns_of_the_definition() {
    for kubectl in Session::all_with_widgets().await {
        kubectl.pipe("apply -f -", &widget("round", "green")).await;
        let said = [
            kubectl.run("get widgets").await,
            kubectl.run("get wd round -o wide").await,
            kubectl.run("get all -o name").await,
            kubectl.run("get widget round -o jsonpath={.spec}").await,
        ];
        expect![[r#"
            NAME    COLOUR
            round   green
            NAME    COLOUR   REPLICAS
            round   green    1
            widget.example.com/round
            {"colour":"green","replicas":1}"#]]
        .assert_eq(&said.concat().replace("service/kubernetes\n", ""));
        let yaml = kubectl.run("get widget round -o yaml").await;
        assert!(yaml.starts_with("apiVersion: example.com/v1\nkind: Widget\n"), "{yaml}");
        let error = kubectl.fail("get widget square", "").await;
        assert_eq!(error, "Error from server (NotFound): widgets.example.com \"square\" not found\n");
    }
}

#[tokio::test]
async fn get_with_watch_shows_a_change() {
    for kubectl in Session::all_with_widgets().await {
        kubectl.pipe("apply -f -", &widget("round", "green")).await;
        let mut watch = kubectl.follow("get widgets --watch");
        watch.until("green").await;
        kubectl.pipe("apply -f -", &widget("round", "blue")).await;
        watch.until("blue").await;
        kubectl.run("delete widget round").await;
        watch.until("blue").await;
        watch.stop().await;
    }
}

#[tokio::test]
async fn server_side_apply_names_the_manager_it_conflicts_with() {
    for kubectl in Session::all_with_widgets().await {
        let apply = "apply --server-side --field-manager";
        let said = kubectl.pipe(&format!("{apply}=ann -f -"), &widget("round", "green")).await;
        assert_eq!(said, "widget.example.com/round serverside-applied\n");
        let error = kubectl.fail(&format!("{apply}=bob -f -"), &widget("round", "blue")).await;
        assert!(error.contains("conflict with \"ann\": .spec.colour"), "{error}");
        kubectl.pipe(&format!("{apply}=bob --force-conflicts -f -"), &widget("round", "blue")).await;
        assert_eq!(kubectl.run("get widget round -o jsonpath={.spec.colour}").await, "blue");
    }
}

#[tokio::test]
async fn patch_label_annotate_scale_and_edit_change_the_object() {
    for kubectl in Session::all_with_widgets().await {
        kubectl.pipe("apply -f -", &widget("round", "red")).await;
        let said = [
            kubectl.run("label widget round shape=round").await,
            kubectl.run("annotate widget round note=bought").await,
            kubectl.run("scale widget round --replicas=3").await,
            kubectl.run("patch widget round --type=merge -p '{\"spec\":{\"colour\":\"green\"}}'").await,
            kubectl.run("patch widget round --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/annotations/note\"}]'").await,
            kubectl.run("edit widget round").await,
            kubectl.run("get widgets -l shape=round -o wide").await,
        ];
        // kubectl 1.27 and 1.28 print `annotate`.
        let said = said.concat().replace("annotate\n", "annotated\n");
        expect![[r#"
            widget.example.com/round labeled
            widget.example.com/round annotated
            widget.example.com/round scaled
            widget.example.com/round patched
            widget.example.com/round patched
            widget.example.com/round edited
            NAME    COLOUR   REPLICAS
            round   violet   3
        "#]]
        .assert_eq(&said);
    }
}

#[tokio::test]
async fn wait_sees_conditions_and_deletion() {
    for kubectl in Session::all_with_widgets().await {
        kubectl.pipe("apply -f -", &widget("round", "green")).await;
        let ready = "'{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}'";
        kubectl.run(&format!("patch widget round --subresource=status --type=merge -p {ready}")).await;
        let said = [
            kubectl.run("wait --for=condition=Ready widget/round --timeout=10s").await,
            kubectl.run("wait --for=jsonpath={.spec.colour}=green widget/round --timeout=10s").await,
            kubectl.run("delete widget round --wait=true").await,
            kubectl.run("wait --for=delete widget/round --timeout=10s").await,
        ];
        expect![[r#"
            widget.example.com/round condition met
            widget.example.com/round condition met
            widget.example.com "round" deleted
        "#]]
        .assert_eq(&said.concat().replace(" from default namespace", ""));
    }
}

#[tokio::test]
async fn describe_and_diff_show_the_object() {
    for kubectl in Session::all_with_widgets().await {
        kubectl.pipe("apply -f -", &widget("round", "green")).await;
        let said = kubectl.run("describe widget round").await;
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["Name: round Namespace: default", "Spec: Colour: green Replicas: 1", "Events: <none>"] {
            assert!(words.contains(part), "`{part}` is not in\n{said}");
        }
        // The exit code is 1 if there are differences, and higher for errors.
        let diff = kubectl.output("diff -f -", &widget("round", "blue")).await;
        let (said, error) = (String::from_utf8_lossy(&diff.stdout), String::from_utf8_lossy(&diff.stderr));
        assert_eq!(diff.status.code(), Some(1), "{said}{error}");
        assert!(said.contains("-  colour: green\n+  colour: blue\n"), "{said}");
    }
}

#[tokio::test]
async fn an_object_that_the_schema_forbids_is_refused_with_the_reason() {
    for kubectl in Session::all_with_widgets().await {
        let error = kubectl.fail("apply -f -", &widget("round", "ab")).await;
        let reason =
            "spec.colour: Invalid value: \"ab\": spec.colour in body should be at least 3 chars long";
        assert!(error.contains(reason), "{error}");
        let error = kubectl.fail("apply -f -", &widget("round", "green, size: 3")).await;
        assert!(error.contains("unknown field \"spec.size\""), "{error}");
    }
}

#[tokio::test]
async fn builtin_kinds_are_created_read_and_deleted() {
    for kubectl in Session::all().await {
        let said = [
            kubectl.run("create namespace shop").await,
            kubectl.run("create configmap prices -n shop --from-literal=apple=3").await,
            kubectl.run("create deployment till -n shop --image=till:1 --replicas=2").await,
            kubectl.run("set image deployment/till -n shop till=till:2").await,
            kubectl.run("scale deployment/till -n shop --replicas=5").await,
            kubectl.run("get deployment till -n shop -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].image}{\"\\n\"}'").await,
            kubectl.run("get configmap prices -n shop -o jsonpath={.data}").await,
        ];
        expect![[r#"
            namespace/shop created
            configmap/prices created
            deployment.apps/till created
            deployment.apps/till image updated
            deployment.apps/till scaled
            5 till:2
            {"apple":"3"}"#]]
        .assert_eq(&said.concat());
        let table = kubectl.run("get deployments -n shop").await;
        assert!(
            table.starts_with("NAME   READY   UP-TO-DATE   AVAILABLE   AGE\ntill   0/5     0            0 "),
            "{table}"
        );
        kubectl.run("delete deployment till -n shop --cascade=orphan").await;
        kubectl.run("delete configmap prices -n shop").await;
        assert_eq!(
            kubectl
                .run("get configmaps,deployments -n shop -o name")
                .await
                .replace("configmap/kube-root-ca.crt\n", ""),
            ""
        );
    }
}

#[tokio::test]
async fn builtin_kinds_are_applied_twice_and_patched_strategically() {
    let manifest = |image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  \
             template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: [{{name: web, image: \"{image}\"}}]\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{image: \"{image}\"}}\n"
        )
    };
    let containers =
        "'{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"log\",\"image\":\"log:1\"}]}}}}'";
    for kubectl in Session::all().await {
        let said = [
            kubectl.pipe("apply -f -", &manifest("web:1")).await,
            kubectl.pipe("apply -f -", &manifest("web:2")).await,
            kubectl.pipe("apply --server-side --force-conflicts -f -", &manifest("web:2")).await,
            kubectl.run(&format!("patch deployment web -p {containers}")).await,
            kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[*].image}").await,
        ];
        expect![[r#"
            deployment.apps/web created
            configmap/web created
            deployment.apps/web configured
            configmap/web configured
            deployment.apps/web serverside-applied
            configmap/web serverside-applied
            deployment.apps/web patched
            log:1 web:2"#]]
        .assert_eq(&said.concat());
        kubectl.pipe("delete -f -", &manifest("web:2")).await;
    }
}

#[tokio::test]
async fn an_unknown_kind_and_broken_yaml_are_refused() {
    for kubectl in Session::all().await {
        let error = kubectl
            .fail("create --validate=false -f -", "apiVersion: v1\nkind: Gadget\nmetadata: {name: x}\n")
            .await;
        assert!(error.contains("no matches for kind \"Gadget\" in version \"v1\""), "{error}");
        let broken = kubectl.file("broken.yaml", "apiVersion: v1\nkind: [\n");
        let error = kubectl.fail(&format!("create -f {broken}"), "").await;
        assert!(error.contains("broken.yaml"), "{error}");
    }
}

#[tokio::test]
async fn explain_and_api_resources_read_the_published_schemas() {
    for kubectl in Session::all_with_widgets().await {
        let said = kubectl.run("explain widget.spec.colour").await;
        assert!(said.contains("GROUP:      example.com") && said.contains("The colour, in words."), "{said}");
        // ObjectMeta has descriptions, also that of a custom kind.
        let said = kubectl.run("explain widget.metadata").await;
        assert!(said.contains("FIELD: metadata <ObjectMeta>"), "{said}");
        assert!(
            said.contains("Annotations is an unstructured key value map stored with a resource"),
            "{said}"
        );
        let said = kubectl.run("explain widget.metadata.ownerReferences.uid").await;
        assert!(said.contains("UID of the referent."), "{said}");
        let said = kubectl.run("explain deployment.spec.replicas").await;
        assert!(said.contains("FIELD: replicas <integer>"), "{said}");
        let said = kubectl.run("api-resources --api-group=example.com --no-headers").await;
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words, ["widgets", "wd", "example.com/v1", "true", "Widget"]);
        let said = kubectl.run("api-versions").await;
        assert!(said.contains("apps/v1\n") && said.contains("example.com/v1\n"), "{said}");
    }
}

#[tokio::test]
async fn a_token_of_a_service_account_authenticates_it() {
    for kubectl in Session::all().await {
        let name = "create serviceaccount robot";
        assert_eq!(kubectl.run(name).await, "serviceaccount/robot created\n");
        let token = kubectl.run("create token robot --duration=20m").await;
        let ask = format!("--token={} get configmaps --all-namespaces -o name", token.trim());
        kubectl.run(&ask).await;
    }
}

/// A ConfigMap with an owner of this UID.
fn child(name: &str, uid: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  ownerReferences:\n  \
         - {{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}\n"
    )
}

#[tokio::test]
async fn delete_follows_the_cascade_option() {
    for kubectl in Session::all().await {
        for cascade in ["background", "foreground", "orphan"] {
            let name = format!("child-{cascade}");
            kubectl.run("create configmap owner").await;
            let uid = kubectl.run("get configmap owner -o jsonpath={.metadata.uid}").await;
            kubectl.pipe("create -f -", &child(&name, &uid)).await;
            kubectl.run(&format!("delete configmap owner --cascade={cascade}")).await;
            if cascade == "orphan" {
                let owners = kubectl
                    .run(&format!("get configmap {name} -o jsonpath={{.metadata.ownerReferences}}"))
                    .await;
                assert_eq!(owners, "");
            } else {
                kubectl.run(&format!("wait --for=delete configmap/{name} --timeout=20s")).await;
            }
        }
    }
}

#[tokio::test]
async fn events_of_one_object_are_listed_and_watched() {
    let event = |name: &str, about: &str, reason: &str| {
        format!(
            "apiVersion: v1\nkind: Event\nmetadata: {{name: {name}}}\n\
             involvedObject: {{apiVersion: v1, kind: ConfigMap, namespace: default, name: {about}}}\n\
             reason: {reason}\nmessage: it happened\ntype: Normal\ncount: 1\n"
        )
    };
    for kubectl in Session::all().await {
        kubectl.run("create configmap a").await;
        kubectl.pipe("create -f -", &event("one", "a", "Painted")).await;
        kubectl.pipe("create -f -", &event("two", "b", "Sold")).await;
        let all = kubectl.run("events").await;
        assert!(all.contains("Painted") && all.contains("Sold"), "{all}");
        let one = kubectl.run("events --for configmap/a").await;
        assert!(one.contains("it happened") && !one.contains("Sold"), "{one}");
        let table = kubectl.run("get events").await;
        assert!(table.starts_with("LAST SEEN   TYPE     REASON    OBJECT        MESSAGE\n"), "{table}");
    }
}

#[tokio::test]
async fn services_autoscalers_and_reviews_can_be_used() {
    for kubectl in Session::all().await {
        let said = [
            kubectl.run("create service clusterip shop --tcp=80:8080").await,
            kubectl.run("create deployment shop --image=shop:1").await,
            kubectl.run("autoscale deployment shop --min=1 --max=5 --name=shop").await,
            kubectl
                .run("get horizontalpodautoscalers.v1.autoscaling shop -o jsonpath={.spec.maxReplicas}")
                .await,
            "\n".to_owned(),
            kubectl.run("auth can-i create pods").await,
        ];
        expect![[r#"
            service/shop created
            deployment.apps/shop created
            horizontalpodautoscaler.autoscaling/shop autoscaled
            5
            yes
        "#]]
        .assert_eq(&said.concat());
        let table = kubectl.run("get service shop -o wide").await;
        let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.starts_with("NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR shop ClusterIP 10.")
                && words.contains(" <none> 80/TCP "),
            "{table}"
        );
        let said = kubectl.output("auth whoami -o jsonpath={.status.userInfo.username}", "").await;
        // kubectl 1.27 only knows the alpha version, which is no longer served.
        if !String::from_utf8_lossy(&said.stderr).contains("selfsubjectreviews API is not enabled") {
            assert_eq!(String::from_utf8_lossy(&said.stdout), "system:admin");
        }
    }
}
