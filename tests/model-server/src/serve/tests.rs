use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::*;

async fn post(server: &ModelServer, path: &str, prompt: &str) -> String {
    let tool = json!({"type": "function", "function": {"name": "bash", "parameters": {}}});
    let body = json!({"model": "m", "stream": true, "tools": [tool],
        "messages": [{"role": "user", "content": prompt}]})
    .to_string();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_stream_is_events_up_to_its_end() {
    let server = ModelServer::start(0, None).await.unwrap();
    let answer = post(&server, "/v1/chat/completions", "[[text]]").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream"), "{answer}");
    assert!(answer.contains("data: {\"id\":\"chatcmpl_000001_0\""), "{answer}");
    assert!(answer.contains("data: [DONE]\n\n"), "{answer}");
}

#[tokio::test]
async fn a_rate_limit_tells_when_to_come_again() {
    let server = ModelServer::start(0, None).await.unwrap();
    let answer = post(&server, "/v1/chat/completions", "[[rate-limit:90]]").await;
    assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
    for header in ["retry-after: 90\r\n", "x-ratelimit-reset-requests: 90s\r\n"] {
        assert!(answer.contains(header), "{answer}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_not_found_and_all_requests_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = ModelServer::start(0, Some(log.clone())).await.unwrap();
    assert!(post(&server, "/v1/nothing", "").await.starts_with("HTTP/1.1 404"));
    assert!(post(&server, "/v1/models", "").await.contains("\"test-model\""));
    let answer = post(&server, "/v1/chat/completions", "[[text]]").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let lines = std::fs::read_to_string(log).unwrap();
    let paths: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["path"].take())
        .collect();
    assert_eq!(paths, ["/v1/nothing", "/v1/models", "/v1/chat/completions"]);
}
