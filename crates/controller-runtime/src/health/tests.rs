//! Answers of the health endpoints.

use super::*;

fn checks() -> Checks {
    let checks = Checks::default();
    checks.add("good", || async { Ok(()) });
    checks.add("bad", || async { Err("the disk of 10.0.0.1 is full".into()) });
    checks
}

async fn get(checks: &Checks, path: &str) -> (u16, String) {
    let request = http::Request::get(path).body(()).unwrap();
    match checks.answer("/readyz", &request).await {
        None => (0, "another path".to_owned()),
        Some(response) => {
            (response.status().as_u16(), String::from_utf8(response.into_body().to_vec()).unwrap())
        }
    }
}

#[tokio::test]
async fn the_endpoint_names_failed_checks_and_withholds_reasons() {
    let expected = "[-]bad failed: reason withheld\n[+]good ok\n[+]ping ok\nreadyz check failed\n";
    assert_eq!(get(&checks(), "/readyz").await, (500, expected.to_owned()));
}

#[tokio::test]
async fn a_check_can_be_excluded() {
    assert_eq!(get(&checks(), "/readyz?exclude=bad").await, (200, "ok".to_owned()));
    assert_eq!(get(&checks(), "/readyz?exclude=b%61d").await, (200, "ok".to_owned()));
    let (code, body) = get(&checks(), "/readyz?verbose&exclude=bad&exclude=ugly").await;
    let expected = "[+]bad excluded: ok\n[+]good ok\n[+]ping ok\n\
                    warn: some health checks cannot be excluded: no matches for \"ugly\"\nreadyz check passed\n";
    assert_eq!((code, body.as_str()), (200, expected));
}

#[tokio::test]
async fn a_check_called_ping_replaces_the_built_in_one() {
    let checks = Checks::default();
    checks.add("ping", || async { Ok(()) });
    assert_eq!(get(&checks, "/readyz?verbose").await, (200, "[+]ping ok\nreadyz check passed\n".to_owned()));
    assert_eq!(
        get(&checks, "/readyz?verbose&exclude=ping").await.1,
        "[+]ping excluded: ok\nreadyz check passed\n"
    );
    checks.add("ping", || async { Err("no route to it".into()) });
    assert_eq!(get(&checks, "/readyz").await.0, 500);
}

#[tokio::test]
async fn a_single_check_has_a_path_and_withholds_its_reason() {
    let checks = checks();
    assert_eq!(get(&checks, "/readyz/good").await, (200, "ok".to_owned()));
    assert_eq!(get(&checks, "/readyz/ping").await, (200, "ok".to_owned()));
    let (code, body) = get(&checks, "/readyz/bad").await;
    assert_eq!((code, body.contains("disk")), (500, false));
    assert_eq!(get(&checks, "/readyz/ugly").await.0, 404);
    assert_eq!(get(&checks, "/readyzz").await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_has_failed() {
    let checks = Checks::default();
    checks.add("hangs", std::future::pending);
    assert_eq!(get(&checks, "/readyz/hangs").await.0, 500);
}
