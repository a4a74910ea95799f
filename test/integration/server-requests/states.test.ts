// The states of servers of 2026-07-28, which clients send back: sealed at one gateway, opened at any other of the deployment.
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { lastMessage, postStateless } from '../../support/mcp-post.js'
import { ofSuite } from '../../support/parts.js'
import { startRedis } from '../../support/redis.js'
import { requestOf, startAsking } from './asking.js'

type Params = Record<string, unknown>
interface Reply {
  readonly result?: { readonly requestState: string; readonly content?: readonly { readonly text: string }[] }
  readonly error?: { readonly code: number; readonly message: string }
}

describe('a requestState that the gateway has sealed', function () {
  this.timeout(60_000)

  const asking = ofSuite(() => startAsking())
  const issuer = ofSuite(() => TestIssuer.start())

  const settings = (more: object = {}) => ({
    targets: { asking: asking.urls.stateless, other: asking.urls.stateless },
    authn: { oidc: issuer.oidc },
    protections: { server_requests: {} },
    ...more,
  })

  const args = { ...requestOf.elicitation_form }
  const inputResponses = { q: { action: 'accept', content: { branch: 'main' } } }

  async function post(
    gateway: TestGateway,
    path: string,
    params: Params,
    sub = 'ada',
    name = path === '/mcp' ? 'asking__ask' : 'ask',
  ): Promise<Reply> {
    const authorization = `Bearer ${await issuer.sign({ sub, email: `${sub}@example.com` })}`
    const options = { headers: { authorization }, capabilities: { elicitation: { form: {} } } }
    const call = { name, arguments: args, ...params }
    return lastMessage<Reply>(await postStateless(`${gateway.url}${path}`, 'tools/call', call, options))
  }

  for (const path of ['/mcp/asking', '/mcp']) {
    it(`is opened at ${path} by another gateway with the same store`, async () => {
      await using redis = await startRedis()
      const shared = settings({ quotas: { adapter: 'redis', redisUrl: redis.url } })
      await using first = await startTestGateway(shared)
      await using second = await startTestGateway(shared)
      const { requestState } = (await post(first, path, {})).result ?? {}
      expect(requestState).to.be.a('string').and.not.contain('of the server')
      const { result } = await post(second, path, { requestState, inputResponses })
      expect(result?.content?.[0]?.text).to.contain('main').and.to.contain('of the server')
    })

    it(`fails at ${path} in one way for every other use, and the server gets nothing`, async () => {
      await using gateway = await startTestGateway(settings())
      await using stranger = await startTestGateway(settings())
      const { requestState = '' } = (await post(gateway, path, {})).result ?? {}
      const round = { requestState, inputResponses }
      const attacks: Readonly<Record<string, Promise<Reply>>> = {
        'another caller': post(gateway, path, round, 'bob'),
        'other arguments': post(gateway, path, { ...round, arguments: requestOf.roots }),
        'another server': post(
          gateway,
          path === '/mcp' ? path : '/mcp/other',
          round,
          'ada',
          path === '/mcp' ? 'other__ask' : 'ask',
        ),
        'another gateway': post(stranger, path, round),
        'no state': post(gateway, path, { inputResponses }),
        "the server's own state": post(gateway, path, { ...round, requestState: 'of the server' }),
        'a changed state': post(gateway, path, { ...round, requestState: `A${requestState.slice(1)}` }),
        'no text': post(gateway, path, { ...round, requestState: 7 }),
      }
      for (const [name, attack] of Object.entries(attacks)) {
        const { error } = await attack
        expect(error, name).to.include({ code: -32602, message: 'requestState: not one of this request.' })
      }
      const { result } = await post(gateway, path, round)
      expect(result?.content?.[0]?.text).to.contain('main')
      const reached = gateway
        .records()
        .filter(({ tool, status }) => tool.startsWith('ask@') && status === 'ok')
      expect(reached).to.have.length(2)
    })
  }
})
