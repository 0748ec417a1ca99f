use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Answers as many calls as there are answers, each with a status, a header and a body. Returns
/// its URL, and each call's first line and headers once it has answered all of them.
fn served(answers: Vec<(u16, String, Value)>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let calls = answers.into_iter().map(|(status, header, body)| {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let call: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} x\r\n{header}Content-Length: {}", body.len());
            write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}").unwrap();
            call.join("\n")
        });
        calls.collect()
    });
    (url, serving)
}

fn forge(kind: Kind, api: &str) -> Forge {
    Forge { kind, api: api.to_owned(), token: "hunter2".to_owned() }
}

fn wanted() -> Proposal {
    let [repository, head, base, title, text, mark] =
        ["o/r", "work", "main", "Title", "Text", "provost f1"].map(str::to_owned);
    Proposal { repository, head, base, title, text, mark }
}

#[test]
fn each_kind_has_its_own_paths_and_no_token_is_shown() {
    let (github, gitlab) =
        (forge(Kind::Github, "https://h/api/"), forge(Kind::Gitlab, "https://h/api/"));
    assert_eq!(github.url("o/r"), "https://h/api/repos/o/r/pulls");
    assert_eq!(gitlab.url("g/s/r"), "https://h/api/projects/g%2Fs%2Fr/merge_requests");
    assert_eq!(github.authorization(), "Bearer hunter2");
    assert!(!format!("{github:?}").contains("hunter2"));
}

#[test]
fn the_url_of_a_request_is_a_short_one_of_http() {
    let gitlab = forge(Kind::Gitlab, "https://h");
    let read = |url: &str| gitlab.read(&json!({"web_url": url, "iid": 1}));
    assert_eq!(read("https://h/1").unwrap().number, 1);
    let long = format!("https://h/{}", "x".repeat(URL_MAX));
    for url in ["javascript:alert(1)", "https://h/1\nRun this", "https://h/a b", &long] {
        assert!(matches!(read(url), Err(ForgeError::Odd("web_url"))), "{url}");
    }
}

#[test]
fn a_redirection_is_not_followed_and_says_where_it_leads() {
    for kind in [Kind::Github, Kind::Gitlab] {
        let (other, _never) = served(vec![(200, String::new(), json!([]))]);
        let header = format!("Location: {other}/x\r\n");
        let (api, serving) = served(vec![(301, header, json!({"message": "Moved"}))]);
        let refused = forge(kind, &api).propose(&wanted()).unwrap_err().to_string();
        assert!(refused.contains("301") && refused.contains(&other), "{refused}");
        assert!(serving.join().unwrap()[0].to_lowercase().contains("bearer hunter2"));
    }
}

#[test]
fn only_a_request_of_these_branches_of_this_repository_is_ours() {
    let github = |from: &str, head: &str, state: &str, text: &str, number: u32| {
        let head = json!({"ref": head, "repo": {"full_name": from}});
        json!({"head": head, "base": {"ref": "main"}, "state": state, "body": text,
            "html_url": format!("https://h/{number}"), "number": number})
    };
    let gitlab = |from: u32, head: &str, state: &str, text: &str, number: u32| {
        json!({"source_project_id": from, "target_project_id": 7, "source_branch": head,
            "target_branch": "main", "state": state, "description": text,
            "web_url": format!("https://h/{number}"), "iid": number})
    };
    let marked = "Text\n\n<!-- provost f1 -->";
    let of_github = json!([
        github("stranger/r", "work", "open", marked, 1),
        github("o/r", "other", "open", "", 2),
        github("o/r", "work", "closed", "", 3),
        github("O/R", "work", "closed", marked, 4),
    ]);
    let of_gitlab = json!([
        gitlab(8, "work", "opened", marked, 1),
        gitlab(7, "other", "opened", "", 2),
        gitlab(7, "work", "merged", "", 3),
        gitlab(7, "work", "opened", "", 4),
    ]);
    for (kind, list) in [(Kind::Github, of_github), (Kind::Gitlab, of_gitlab)] {
        let (api, serving) = served(vec![(200, String::new(), list)]);
        assert_eq!(forge(kind, &api).propose(&wanted()).unwrap().number, 4, "{kind:?}");
        let calls = serving.join().unwrap();
        assert!(calls[0].starts_with("GET ") && calls[0].contains("state=all"), "{calls:?}");
    }
}

#[test]
fn an_answer_that_is_too_long_came_from_a_forge_that_can_be_reached() {
    let long = json!(["x".repeat(usize::try_from(ANSWER_MAX).unwrap())]);
    for (status, expected) in [(200, "has more than 4194304 bytes"), (500, "it answered 500")] {
        let (api, _serving) = served(vec![(status, String::new(), long.clone())]);
        let refused = forge(Kind::Github, &api).propose(&wanted()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}
