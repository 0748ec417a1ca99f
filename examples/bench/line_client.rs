//! A client that writes lines to a program and reads its answers, as plainly as possible: what it
//! measures is not its own work.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;

pub struct LineClient {
    program: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
    line: Vec<u8>,
}

/// A call of a tool, ready to be written under any id.
#[derive(Clone)]
pub struct PreparedCall {
    rest: String,
}

impl PreparedCall {
    pub fn new(tool: &str, arguments: &Value) -> Self {
        let params = json!({"name": tool, "arguments": arguments});
        Self { rest: format!(r#","jsonrpc":"2.0","method":"tools/call","params":{params}}}"#) }
    }
}

impl LineClient {
    /// Starts a program that speaks MCP on its standard streams, and says hello.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn()?;
        let (stdin, stdout) = program.stdin.take().zip(program.stdout.take()).ok_or("no pipes")?;
        let stdout = BufReader::with_capacity(1 << 20, stdout);
        let mut client = Self { program, stdin, stdout, id: 0, line: Vec::new() };
        client.send(
            r#"{"id":0,"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
        )?;
        client.receive()?;
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(client)
    }

    pub fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.program.id())?)
    }

    fn send(&mut self, line: &str) -> Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }

    fn receive(&mut self) -> Result<&[u8]> {
        self.line.clear();
        if self.stdout.read_until(b'\n', &mut self.line)? == 0 {
            return Err("the server has ended".into());
        }
        Ok(&self.line)
    }

    fn ask(&mut self, call: &PreparedCall) -> Result<()> {
        self.id += 1;
        let line = format!("{{\"id\":{}{}", self.id, call.rest);
        self.send(&line)
    }

    /// What a call answers.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        self.ask(&PreparedCall::new(tool, arguments))?;
        self.answer(tool)
    }

    fn answer(&mut self, tool: &str) -> Result<Value> {
        let mut answer: Value = serde_json::from_slice(self.receive()?)?;
        let mut result = answer["result"].take();
        if result.is_null() || result["isError"] == true {
            return Err(format!("{tool}: {answer}{result}").into());
        }
        Ok(result["structuredContent"].take())
    }

    /// What some calls answer that are in flight together, in any order.
    pub fn calls_at_once(&mut self, tool: &str, arguments: &[Value]) -> Result<Vec<Value>> {
        for arguments in arguments {
            self.ask(&PreparedCall::new(tool, arguments))?;
        }
        arguments.iter().map(|_| self.answer(tool)).collect()
    }

    /// How long each of some calls takes, one after the other.
    pub fn one_by_one(&mut self, call: &PreparedCall, calls: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let begun = Instant::now();
            self.ask(call)?;
            self.receive()?;
            times.push(begun.elapsed());
        }
        Ok(times)
    }

    /// How long some calls take together, with so many in flight.
    pub fn in_flight(
        &mut self,
        call: &PreparedCall,
        calls: usize,
        width: usize,
    ) -> Result<Duration> {
        let begun = Instant::now();
        for _ in 0..width {
            self.ask(call)?;
        }
        for number in 0..calls {
            self.receive()?;
            if number + width < calls {
                self.ask(call)?;
            }
        }
        Ok(begun.elapsed())
    }
}

impl Drop for LineClient {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
