//! The table of tools as an OpenAPI 3.1 document (<https://spec.openapis.org/oas/v3.1.1>). Its
//! schemas are those of the tools. Pure.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::RequestContext;
use crate::tools::{RunKind, Tool, table};

/// Handles `GET /api/v1/openapi.json`. The document has only the tools that this caller may call.
pub async fn document(desk: RequestContext) -> Response {
    let caller = &desk.caller;
    let may = |tool: &&Tool| tool.is_for(caller) && tool.access() <= caller.access;
    Json(described(table::all().iter().filter(may))).into_response()
}

fn described<'a>(tools: impl Iterator<Item = &'a Tool>) -> Value {
    let paths: Map<String, Value> = tools
        .map(|tool| (format!("/api/v1/{}", tool.name), json!({"post": operation(tool)})))
        .collect();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Provost",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Each tool of Provost as a POST of its arguments.",
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": error()},
            "responses": {"Refused": {
                "description": "The call was refused; the hint names the way out.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            }},
        },
    })
}

fn operation(tool: &Tool) -> Value {
    let definition = tool.definition();
    let input = Value::Object((*definition.input_schema).clone());
    let output = definition.output_schema.map_or(json!({}), |it| Value::Object((*it).clone()));
    let mut operation = json!({
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "requestBody": {
            "required": input.get("required").is_some_and(|it| *it != json!([])),
            "content": {"application/json": {"schema": input}},
        },
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": output}},
            },
            "default": {"$ref": "#/components/responses/Refused"},
        },
    });
    if tool.kind == RunKind::Change {
        operation["parameters"] = json!([{
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Makes a repeated call the same call, as request_id does.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }]);
    }
    operation
}

/// The schema of a refusal's envelope.
fn error() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"description": "The message; of the worker API's tools an object."},
            "code": text,
            "message": text,
            "retryable": {"type": "boolean"},
            "hint": text,
            "details": {"type": "object"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_tool_is_an_operation_with_its_schemas() {
        let document = described(table::all().iter());
        for tool in table::all() {
            let post = &document["paths"][format!("/api/v1/{}", tool.name)]["post"];
            assert_eq!(post["operationId"], tool.name);
            let schema = &post["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert!(jsonschema::draft202012::new(schema).is_ok(), "{}", tool.name);
            let output = &post["responses"]["200"]["content"]["application/json"]["schema"];
            assert!(jsonschema::draft202012::new(output).is_ok(), "{}", tool.name);
            let is_change = tool.kind == RunKind::Change;
            assert_eq!(post.get("parameters").is_some(), is_change, "{}", tool.name);
        }
        let count = document["paths"].as_object().unwrap().len();
        assert_eq!(count, table::all().len());
    }
}
