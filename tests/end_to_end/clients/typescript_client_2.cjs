// The TypeScript client 2.x: `node typescript_client_2.cjs URL [auto]`, with the steps on stdin. Without `auto` it
// initializes, as it does unless it is told otherwise; with it, it takes the newest era that the server has.
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { answers, capabilities, fail, take, url } = require("./steps.cjs");

const options = process.argv[3] === "auto" ? { capabilities, versionNegotiation: { mode: "auto" } } : { capabilities };
const client = new Client({ name: "typescript-client-2", version: "1" }, options);
client.setRequestHandler("elicitation/create", answers.elicitation);
client.setRequestHandler("sampling/createMessage", answers.sampling);
client.setRequestHandler("roots/list", answers.roots);

take(
  client,
  new StreamableHTTPClientTransport(url),
  () => client.getNegotiatedProtocolVersion(),
  (it, parameters, callOptions) => it.callTool(parameters, callOptions),
).catch(fail);
