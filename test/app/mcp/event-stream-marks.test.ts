// What stands before the first event of a stream: clients drop one mark, and some also what looks like one.
import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import { event, events, result } from '../../support/mcp-server.js'
import { connect1 } from '../../support/sdk-clients.js'

const mark = '\ufeff'
/** The bytes of the mark, each as a character. */
const lookAlike = '\u00ef\u00bb\u00bf'

const tools = ['echo', 'hidden'].map((name) => ({ name, inputSchema: { type: 'object' } }))
const entitlements = { default_plan: 'p', plans: { p: { allowlist: ['files/echo'] } }, tenants: {} }

describe('a byte order mark before the events of a server', () => {
  for (const [what, before] of [
    ['one', mark],
    ['two', mark + mark],
    ['one after a similar character', lookAlike + mark],
    ['one before a similar character', mark + lookAlike],
    ['a similar character', lookAlike],
  ] as const) {
    it(`does not bypass the policy: ${what}`, () =>
      withGateway(
        (message, response) =>
          message['id'] === undefined
            ? response.writeHead(202).end()
            : events(response, `${before}${event(result(message, { tools }))}`),
        async ({ gateway }) => {
          await using client = await connect1(`${gateway.url}/mcp/files`)
          const listed = await client.listTools().then(
            (list) => list.tools.map(({ name }) => name),
            () => 'an error',
          )
          expect(listed).to.deep.equal(before === mark ? ['echo'] : 'an error')
        },
        { entitlements },
      ))
  }
})
