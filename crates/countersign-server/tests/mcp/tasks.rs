//! Held calls as tasks, in both protocol generations, and tasks that a server creates for an approved call.

use serde_json::{Value, json};

use crate::client::{Client, journal, pending, until};
use crate::hold::place;
use crate::http::{Running, post, suite};
use crate::modern::meta;
use crate::peers::{drive, gateway, node, package, typescript};
use crate::test_folder::TestFolder;

#[test]
fn a_client_of_the_earlier_kind_gets_a_task_when_it_asks_for_one() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let begin = |client: &mut Client, line: &str| -> Value {
        let params = json!({"name": "write", "arguments": {"line": line}, "task": {"ttl": 60000}});
        let answer = client.request("tools/call", params);
        let task = answer["result"]["task"].clone();
        assert_eq!(task["status"], "working", "{answer}");
        assert!(task["ttl"].is_u64() && task["pollInterval"].is_u64(), "{task}");
        json!({"taskId": task["taskId"]})
    };
    let id = begin(&mut client, "a");
    let now = client.request("tasks/get", id.clone());
    assert_eq!(now["result"]["status"], "working", "{now}");
    let listed = client.request("tasks/list", json!({}));
    assert_eq!(listed["result"]["tasks"][0]["taskId"], id["taskId"], "{listed}");
    // The result arrives only when the task has ended.
    let result = client.ask("tasks/result", id.clone());
    assert!(client.is_quiet(std::time::Duration::from_millis(200)));
    place.good(&["approve", &pending(&place)]);
    let answer = client.answer(result);
    assert_eq!(answer["result"]["content"][0]["text"], "write {\"line\": \"a\"}");
    let related = &answer["result"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], id["taskId"]);
    assert_eq!(
        client.request("tasks/get", id.clone())["result"]["status"],
        "completed"
    );
    assert_eq!(
        client.request("tasks/cancel", id)["error"]["code"],
        -32602,
        "over is over"
    );
    assert_eq!(
        client.request("tasks/list", json!({}))["result"]["tasks"],
        json!([])
    );

    let id = begin(&mut client, "b");
    place.good(&["deny", &pending(&place), "--comment", "not now"]);
    assert_eq!(
        client.request("tasks/get", id.clone())["result"]["status"],
        "completed"
    );
    let denied = client.request("tasks/result", id);
    assert_eq!(denied["result"]["isError"], true);
    assert!(denied.to_string().contains("not now"), "{denied}");

    let id = begin(&mut client, "c");
    let cancelled = client.request("tasks/cancel", id.clone());
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    assert_eq!(client.request("tasks/get", id)["result"]["status"], "cancelled");
    assert_eq!(place.json(&["list"])["approvals"], json!([]));
    // Tasks of other clients are not visible.
    let id = begin(&mut client, "d");
    let mut other = Client::peer(&place, &["--as", "eve"]);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(
            other.request(method, id.clone())["error"]["code"],
            -32602,
            "{method}"
        );
    }
    assert_eq!(
        other.request("tasks/list", json!({}))["result"]["tasks"],
        json!([])
    );
    pending(&place);
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn a_task_of_the_servers_own_stands_behind_the_one_of_a_held_call() {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.\"everything/simulate-research-query\"]\neffect = \"write\"\n",
    );
    let (node, server) = (node(), package("server-everything/dist/index.js"));
    let gateway = gateway(&place, &["--name", "everything", "--", &node, &server, "stdio"]);
    let calls = json!([["simulate-research-query", {"topic": "sheep"}]]);
    let lines = drive(&place, typescript("v1+tasks", &gateway, &calls), Some("approve"));
    assert_eq!(lines[1]["type"], "taskCreated", "{lines:?}");
    let listed = lines[2]["listed"][0]["taskId"].as_str().unwrap();
    assert!(listed.starts_with("countersign:"), "{listed}");
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "result", "{lines:?}");
    assert!(
        last["text"].as_str().unwrap().contains("Research Report: sheep"),
        "{last}"
    );
    let all = place.json(&["list", "--all"]);
    assert_eq!(all["approvals"].as_array().unwrap().len(), 1, "{all}");
}

/// A client of protocol version 2026-07-28 that supports tasks, at a gateway in front of the suite's server.
struct Modern<'g>(&'g Running);

impl Modern<'_> {
    fn ask(&self, method: &str, name: &str, params: Value) -> Value {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
        let mut params = params;
        params["_meta"] = meta(&tasks);
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", name),
        ];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        post(&self.0.address, &headers, &message).answer()["result"].clone()
    }

    /// Calls a tool, approves the held call and returns the task id.
    fn approved(&self, place: &TestFolder, tool: &str, arguments: Value) -> String {
        let task = self.ask("tools/call", tool, json!({"name": tool, "arguments": arguments}));
        assert_eq!(task["resultType"], "task", "{task}");
        place.good(&["approve", &pending(place)]);
        task["taskId"].as_str().unwrap().to_owned()
    }

    fn about(&self, method: &str, id: &str) -> Value {
        self.ask(method, id, json!({"taskId": id}))
    }

    #[track_caller]
    fn until(&self, id: &str, status: &str) -> Value {
        let mut now = Value::Null;
        until(status, || {
            now = self.about("tasks/get", id);
            now["status"] == status
        });
        now
    }
}

#[test]
fn what_a_servers_task_asks_and_comes_to_is_seen_through_ours() {
    let server = suite();
    let place = TestFolder::without_policy();
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--url", &url]);
    let client = Modern(&gateway);
    let discovered = client.ask("server/discover", "", json!({}));
    assert!(
        discovered["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(),
        "{discovered}"
    );

    let id = client.approved(&place, "confirm_delete", json!({"filename": "a.txt"}));
    assert!(id.starts_with("countersign:"), "{id}");
    let now = client.until(&id, "input_required");
    let (key, question) = now["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Delete a.txt?");
    let answers = json!({key: {"action": "accept", "content": {"confirm": true}}});
    let told = client.ask(
        "tasks/update",
        &id,
        json!({"taskId": id, "inputResponses": answers}),
    );
    assert_eq!(told, json!({"resultType": "complete"}));
    let now = client.until(&id, "completed");
    assert_eq!(now["result"]["content"][0]["text"], "confirmed", "{now}");

    let id = client.approved(&place, "protocol_error_job", json!({}));
    assert_eq!(client.until(&id, "failed")["error"]["message"], "it broke");
    let id = client.approved(&place, "failing_job", json!({}));
    assert_eq!(client.until(&id, "completed")["result"]["isError"], true);

    let id = client.approved(&place, "slow_compute", json!({"seconds": 60}));
    assert_eq!(client.about("tasks/get", &id)["status"], "working");
    assert_eq!(
        client.about("tasks/cancel", &id),
        json!({"resultType": "complete"})
    );
    client.until(&id, "cancelled");
}
