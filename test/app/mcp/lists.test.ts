import type { ServerResponse } from 'node:http'
import type { ReferenceRule } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { denyAll, event, events, json, result, withProxy } from '../../support/mcp-server.js'

describe('lists over MCP', () => {
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const tools = { tools: [{ name: 'echo' }, { name: 'drop' }], nextCursor: 'n' }
  const onlyEcho: ReferenceRule = (reference) =>
    reference === 'mcp://files/echo@2.0.0' ? undefined : { reason: 'tool_not_in_allowlist', stage: 'test' }
  const echoOnly = { tools: [{ name: 'echo' }], nextCursor: 'n' }

  it('are filtered in JSON, and the record has the hash of the filtered list', async () => {
    await withProxy(
      (message, response) => json(response, result(message, tools)),
      async (proxy) => {
        const response = await proxy.response({ body: list, rules: [onlyEcho] })
        expect(response.json()).to.deep.equal({ jsonrpc: '2.0', id: 1, result: echoOnly })
        expect(response.settlements[0]?.digest).to.equal(
          sha256Hex('{"nextCursor":"n","tools":[{"name":"echo"}]}'),
        )
      },
    )
  })

  it('are filtered in events, which keep their ids', async () => {
    await withProxy(
      (message, response) => events(response, `id: 9\n${event(result(message, tools))}`),
      async (proxy) => {
        const { text } = await proxy.response({ body: list, rules: [onlyEcho] })
        expect(text).to.equal(
          `id: 9\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: echoOnly })}\n\n`,
        )
      },
    )
  })

  it('are filtered when a GET stream replays them, and under a method that only this server knows', async () => {
    await withProxy(
      (message, response, call) => {
        if (call.method === 'GET') events(response, event({ jsonrpc: '2.0', id: 1, result: tools }))
        else if (message['method'] === 'tools/list') events(response, 'id: 1\ndata:\n\n')
        else json(response, result(message, tools))
      },
      async (proxy) => {
        await proxy.response({ body: list, headers: { 'mcp-session-id': 's' } })
        const replayed = await proxy.response({
          method: 'GET',
          headers: { 'mcp-session-id': 's', 'last-event-id': '1' },
          rules: [onlyEcho],
        })
        expect(replayed.text).to.include('echo').and.not.include('drop')
        const body = { jsonrpc: '2.0', id: 1, method: 'acme/everything' }
        expect((await proxy.response({ body, rules: [onlyEcho] })).text).to.not.include('drop')
      },
    )
  })

  it('are filtered in errors too', async () => {
    await withProxy(
      (message, response) => json(response, result(message, tools), 500),
      async (proxy) => {
        const response = await proxy.response({ body: list, rules: [onlyEcho] })
        expect(response.status).to.equal(500)
        expect(response.text).to.not.include('drop')
      },
    )
  })

  it('pass byte for byte if nothing is removed', async () => {
    const bytes =
      '{ "jsonrpc":"2.0", "id":1, "result":{"tools":[{"name":"echo","max":9223372036854775807}]} }'
    await withProxy(
      (_message, response) =>
        response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(bytes),
      async (proxy) => {
        expect((await proxy.response({ body: list, rules: [onlyEcho] })).text).to.equal(bytes)
      },
    )
  })

  describe('with a member twice', () => {
    const allowed = '{"tools":[{"name":"echo"}]}'
    const all = '{"tools":[{"name":"echo"},{"name":"drop"}]}'
    const anew = `{"jsonrpc":"2.0","id":1,"result":${allowed}}`

    for (const [what, text] of [
      ['the result', `{"jsonrpc":"2.0","id":1,"result":${all},"result":${allowed}}`],
      ['the result, once escaped', `{"jsonrpc":"2.0","id":1,"r\\u0065sult":${all},"result":${allowed}}`],
      ['the list', `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"drop"}],"tools":[{"name":"echo"}]}}`],
      ['the name', `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"drop","name":"echo"}]}}`],
    ] as const) {
      it(`(${what}) are sent as they were judged, in JSON, in errors and in events`, async () => {
        for (const send of [
          (to: ServerResponse) => to.writeHead(200, { 'content-type': 'application/json' }).end(text),
          (to: ServerResponse) => to.writeHead(500, { 'content-type': 'application/json' }).end(text),
          (to: ServerResponse) => events(to, `data: ${text}\n\n`),
        ]) {
          await withProxy(
            (_message, response) => send(response),
            async (proxy) => {
              const response = await proxy.response({ body: list, rules: [onlyEcho] })
              expect(response.text.replace(/^data: |\n\n$/g, '')).to.equal(anew)
              const { digest } = response.settlements[0] ?? {}
              if (response.status === 200) expect(digest).to.equal(sha256Hex(allowed))
            },
          )
        }
      })
    }

    it('are sent as they were judged when they are replayed on a GET stream', async () => {
      const twice = `{"jsonrpc":"2.0","id":1,"result":${all},"result":${allowed}}`
      await withProxy(
        (_message, response, call) => {
          if (call.method === 'GET') events(response, `data: ${twice}\n\n`)
          else events(response, 'id: 1\ndata:\n\n')
        },
        async (proxy) => {
          await proxy.response({ body: list, headers: { 'mcp-session-id': 's' } })
          const headers = { 'mcp-session-id': 's', 'last-event-id': '1' }
          const asking = { method: 'GET', headers, rules: [onlyEcho] } as const
          expect((await proxy.response(asking)).text).to.equal(`data: ${anew}\n\n`)
        },
      )
    })

    it('are encoded again in a notification too', async () => {
      const first = '{"jsonrpc":"2.0","method":"a","method":"notifications/x"}'
      await withProxy(
        (message, response) => events(response, `data: ${first}\n\n`, event(result(message, { tools: [] }))),
        async (proxy) => {
          const { text } = await proxy.response({ body: list })
          expect(text).to.match(/^data: {"jsonrpc":"2.0","method":"notifications\/x"}\n\n/)
        },
      )
    })
  })

  it('are empty for a caller that may use nothing', async () => {
    await withProxy(
      (message, response) => json(response, result(message, tools)),
      async (proxy) => {
        const response = await proxy.response({ body: list, rules: [denyAll] })
        expect(response.json()).to.have.deep.nested.property('result.tools', [])
      },
    )
  })
})
