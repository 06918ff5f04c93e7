//! `web_search`: searches the web with the configured engine.

use haft_core::{Net, Output, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{engines, untrusted};

const DEFAULT_RESULTS: usize = 8;
const MAX_RESULTS: usize = 20;

/// The words to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "query": "rust async trait object safety", "domains": ["doc.rust-lang.org"] }))]
pub struct WebSearch {
    /// The words to search for.
    #[schemars(length(min = 1, max = 400), extend("x-aliases" = ["q", "search_term", "searchTerm"]))]
    pub query: String,
    /// Maximum number of results.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = MAX_RESULTS), extend("x-aliases" = ["count", "num_results", "numResults", "max_results"]))]
    pub limit: usize,
    /// Only results from these hosts and their subdomains.
    #[serde(default)]
    #[schemars(length(max = 10), extend("x-aliases" = ["include_domains", "allowed_domains", "sites"]))]
    pub domains: Vec<String>,
}

fn default_results() -> usize {
    DEFAULT_RESULTS
}

/// The search results.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchHits {
    /// The search engine used.
    pub engine: String,
    /// The best first.
    #[schemars(extend("x-in-content" = true))]
    pub results: Vec<SearchHit>,
    #[serde(skip)]
    query: String,
}

/// A search result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchHit {
    /// The title of the page.
    pub title: String,
    /// The address of the page.
    pub url: String,
    /// A part of the page's text, from the engine.
    pub excerpt: String,
    /// The date of publication, if the engine has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

impl Output for SearchHits {
    fn text(&self) -> String {
        if self.results.is_empty() {
            return format!("No results from {}; try other or fewer words.", self.engine);
        }
        let entry = |(number, hit): (usize, &SearchHit)| {
            let when = hit.published.as_ref().map_or(String::new(), |when| format!(" ({when})"));
            let excerpt = if hit.excerpt.is_empty() {
                String::new()
            } else {
                format!("\n   {}", hit.excerpt)
            };
            format!("{}. {}{when}\n   {}{excerpt}", number + 1, hit.title, hit.url)
        };
        let entries: Vec<String> = self.results.iter().enumerate().map(entry).collect();
        untrusted::marked(&format!("a search with {}", self.engine), &entries.join("\n"))
    }

    fn title(&self) -> Option<String> {
        Some(format!("Search {}", self.query))
    }
}

/// Searches the web.
#[tool(
    idempotent,
    deadline = "130s",
    variables(max_results = MAX_RESULTS),
    profiles(mcp, researcher)
)]
pub async fn web_search(input: WebSearch, net: Net) -> Result<SearchHits, ToolError> {
    let engine = net.search()?.clone();
    let query = engines::EngineQuery::new(&input.query, input.limit, input.domains);
    let request = engines::request(&engine, &query)?;
    let response = net.send(request).await?;
    let results = engines::results(engine.kind, &response, &query)?;
    Ok(SearchHits { engine: engine.kind.name().to_owned(), results, query: query.words })
}
