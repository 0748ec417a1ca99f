//! The CLIs: where they come from, and the configuration that points each at our model
//! server: that of Provost's executor of the same name, and files in the home folder.

use serde_json::json;

/// A coding-agent CLI.
pub struct Cli {
    /// Its own, that of its program, and that of Provost's executor for it.
    pub name: &'static str,
    /// In the npm registry.
    pub package: &'static str,
    /// Given the model server's address.
    pub setup: fn(&str) -> Setup,
}

/// A CLI in a version.
#[derive(Clone, Copy)]
pub struct Pick<'a> {
    pub cli: &'static Cli,
    /// `None`: the newest.
    pub version: Option<&'a str>,
}

impl<'a> Pick<'a> {
    /// `codex`, or `codex@0.149.0`.
    pub fn read(text: &'a str) -> Result<Self, String> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        if version.is_some_and(|version| version.is_empty() || !version.chars().all(plain)) {
            return Err(format!("{text} names no version, such as {name}@1.2.3"));
        }
        let known: Vec<&str> = ALL.iter().map(|cli| cli.name).collect();
        let cli = ALL.iter().find(|cli| cli.name == name);
        let cli = cli.ok_or_else(|| format!("{name} is none of {}", known.join(", ")))?;
        Ok(Self { cli, version })
    }

    /// Its folder, and the package for npm.
    pub fn names(&self) -> [String; 2] {
        let names = [self.cli.name, self.cli.package];
        names.map(|name| match self.version {
            Some(version) => format!("{name}@{version}"),
            None => name.to_owned(),
        })
    }
}

/// What a user would write down.
#[derive(Default)]
pub struct Setup {
    /// Variables for `[executors.NAME]` in `config.toml`.
    pub env: Vec<(&'static str, String)>,
    /// Path in the home folder, and content.
    pub files: Vec<(&'static str, String)>,
}

/// What the server is told to be its key. It asks for none.
const KEY: &str = "sk-local";

pub const ALL: [Cli; 7] = [
    Cli { name: "claude", package: "@anthropic-ai/claude-code", setup: claude },
    Cli { name: "codex", package: "@openai/codex", setup: codex },
    Cli { name: "gemini", package: "@google/gemini-cli", setup: gemini },
    Cli { name: "opencode", package: "opencode-ai", setup: opencode },
    Cli { name: "qwen", package: "@qwen-code/qwen-code", setup: qwen },
    Cli { name: "copilot", package: "@github/copilot", setup: copilot },
    Cli { name: "kimi", package: "@moonshot-ai/kimi-code", setup: kimi },
];

fn claude(url: &str) -> Setup {
    let env = [
        ("ANTHROPIC_BASE_URL", url),
        ("ANTHROPIC_API_KEY", KEY),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // Ten tries take three minutes.
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
    ];
    Setup { env: owned(&env), ..Setup::default() }
}

fn codex(url: &str) -> Setup {
    let config = format!(
        "model_provider = \"local\"\n\
         [model_providers.local]\n\
         name = \"local\"\n\
         base_url = \"{url}/v1\"\n\
         env_key = \"MODEL_KEY\"\n\
         wire_api = \"responses\"\n\
         request_max_retries = 0\n\
         stream_max_retries = 0\n"
    );
    let files = vec![(".codex/config.toml", config)];
    Setup { env: owned(&[("MODEL_KEY", KEY)]), files }
}

fn gemini(url: &str) -> Setup {
    let settings = json!({
        "general": {"enableAutoUpdate": false, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": false},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    });
    let env = [("GOOGLE_GEMINI_BASE_URL", url), ("GEMINI_API_KEY", KEY)];
    Setup { env: owned(&env), files: vec![(".gemini/settings.json", settings.to_string())] }
}

fn opencode(url: &str) -> Setup {
    let model = json!({"name": "Test", "limit": {"context": 200_000, "output": 8_000},
        "cost": {"input": 10, "output": 20}});
    let config = json!({
        "autoupdate": false, "share": "disabled",
        "model": "local/test-model", "small_model": "local/test-model",
        "provider": {"local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": KEY},
            "models": {"test-model": model},
        }},
    });
    let env = [
        ("OPENCODE_CONFIG_CONTENT", config.to_string().as_str()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ]
    .map(|(name, value)| (name, value.to_owned()));
    Setup { env: env.into(), ..Setup::default() }
}

fn qwen(url: &str) -> Setup {
    let settings = json!({
        "general": {"enableAutoUpdate": false},
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": "test-model", "generationConfig": {"maxRetries": 0}},
    });
    let base = format!("{url}/v1");
    let env = [("OPENAI_BASE_URL", base.as_str()), ("OPENAI_API_KEY", KEY)];
    Setup { env: owned(&env), files: vec![(".qwen/settings.json", settings.to_string())] }
}

fn copilot(url: &str) -> Setup {
    let base = format!("{url}/v1");
    let env = [
        ("COPILOT_PROVIDER_BASE_URL", base.as_str()),
        ("COPILOT_PROVIDER_TYPE", "openai"),
        ("COPILOT_PROVIDER_API_KEY", KEY),
        ("COPILOT_MODEL", "test-model"),
        ("COPILOT_OFFLINE", "true"),
    ];
    Setup { env: owned(&env), ..Setup::default() }
}

fn kimi(url: &str) -> Setup {
    let config = format!(
        "default_model = \"test\"\n\
         [providers.local]\n\
         type = \"openai\"\n\
         base_url = \"{url}/v1\"\n\
         api_key = \"{KEY}\"\n\
         [models.test]\n\
         provider = \"local\"\n\
         model = \"test-model\"\n\
         max_context_size = 200000\n"
    );
    let env = [("KIMI_CODE_NO_AUTO_UPDATE", "1"), ("KIMI_LOOP_MAX_ATTEMPTS_PER_STEP", "1")];
    Setup { env: owned(&env), files: vec![(".kimi-code/config.toml", config)] }
}

fn owned(env: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    env.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}
