// What the TypeScript clients have in common: the steps to take come as JSON on stdin, and one JSON object with what
// came of each goes to stdout. A step is [method of the client, its parameters].
const { readFileSync } = require("node:fs");

const url = new URL(process.argv[2]);
const asked = [];

// How this agent answers what a server asks; the fixture server says what it was told.
const answers = {
  elicitation: (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { username: "ada", email: "ada@example.com", name: "Ada" } };
  },
  sampling: (request) => {
    asked.push(request.params.messages[0].content.text);
    return { role: "assistant", model: "none", content: { type: "text", text: "sampled" } };
  },
  roots: () => ({ roots: [{ uri: "file:///work/here", name: "here" }] }),
};
const capabilities = { elicitation: {}, sampling: {}, roots: {} };

// `call(client, parameters, options)` calls a tool: the one method whose arguments differ between the clients.
async function take(client, transport, version, call) {
  await client.connect(transport);
  const results = [];
  for (const [method, parameters] of JSON.parse(readFileSync(0, "utf8"))) {
    const progress = [];
    const options = { onprogress: (report) => progress.push(report.progress) };
    try {
      const called = method === "callTool" ? call(client, parameters, options) : client[method](parameters);
      results.push({ result: await called, progress });
    } catch (error) {
      results.push({ error: `${error.name}: ${error.message}`, progress });
    }
  }
  const protocol = version();
  await client.close();
  console.log(JSON.stringify({ protocol, asked, results }));
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

module.exports = { answers, capabilities, fail, take, url };
