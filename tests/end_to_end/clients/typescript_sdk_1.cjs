// The TypeScript SDK 1.x: `node typescript_sdk_1.cjs URL`, with the steps on stdin.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");
const { answers, capabilities, fail, take, url } = require("./steps.cjs");

const client = new Client({ name: "typescript-sdk-1", version: "1" }, { capabilities });
client.setRequestHandler(types.ElicitRequestSchema, answers.elicitation);
client.setRequestHandler(types.CreateMessageRequestSchema, answers.sampling);
client.setRequestHandler(types.ListRootsRequestSchema, answers.roots);

// This SDK tells the negotiated version to its transport and to nobody else.
let protocol;
class Transport extends StreamableHTTPClientTransport {
  setProtocolVersion(version) {
    protocol = version;
    super.setProtocolVersion(version);
  }
}

const call = (it, parameters, options) => it.callTool(parameters, undefined, options);
take(client, new Transport(url), () => protocol, call).catch(fail);
