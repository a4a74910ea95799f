import { join } from 'node:path'
import { expect } from 'chai'
import { startBucket } from '../../support/bucket.js'
import { addKey, startControlPlane } from '../../support/control-plane.js'
import { TestIssuer } from '../../support/issuer.js'
import { startOAuthProvider } from '../../support/oauth-provider.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { startTokenEndpoint } from '../../support/token-endpoint.js'
import { startUpstream } from '../../support/upstream.js'

import { DoctorRig } from './doctor-rig.js'

describe('svc doctor, about the peers of a gateway,', () => {
  const rig = new DoctorRig()

  it('finds an upstream that does not respond, or responds with an error', async () => {
    const failing = await startUpstream((_call, response) => response.writeHead(503).end())
    const lines = await rig.about('targets', {
      targets: { billing: rig.upstream.url, failing: failing.url, gone: 'mcp+http://127.0.0.1:1/mcp' },
    })
    await failing[Symbol.asyncDispose]()
    expect(lines[0]).to.match(/^ok the server "billing"/)
    expect(lines[1]).to.match(/^warning the server "failing" at .* responds with 503$/)
    expect(lines[2]).to.match(
      /^error the server "gone" at http:\/\/127.0.0.1:1\/mcp cannot be reached: connect ECONN/,
    )
  })

  it('finds an upstream that redirects to another address of its host', async () => {
    await using moved = await startUpstream((_call, response) =>
      response.writeHead(307, { location: '/mcp/' }).end(),
    )
    const [line] = await rig.about('targets', { targets: { moved: `mcp+${moved.url}/mcp` } })
    expect(line).to.equal(
      `warning the server "moved" at ${moved.url}/mcp redirects to ${moved.url}/mcp/, and redirects are not followed`,
    )
  })

  it('warns if the clock differs from that of an upstream', async () => {
    const at = (ms: number) =>
      startUpstream((_call, response) =>
        response.writeHead(200, { date: new Date(Date.now() + ms).toUTCString() }).end(),
      )
    await using ahead = await at(60_000)
    await using behind = await at(-60_000)
    await using close = await at(-2000)
    const lines = await rig.about('targets', {
      targets: { ahead: ahead.url, behind: behind.url, close: close.url },
    })
    expect(lines.filter((line) => line.startsWith('warning'))).to.satisfy(
      ([first, second, ...rest]: string[]) =>
        /^warning the clock of this machine is (59|60) s behind that of the server "ahead"$/.test(
          first ?? '',
        ) &&
        /^warning the clock of this machine is (59|60|61) s ahead of that of the server "behind"$/.test(
          second ?? '',
        ) &&
        rest.length === 0,
    )
  })

  describe('on the issuer', () => {
    let issuer: TestIssuer

    beforeEach(async () => {
      issuer = await TestIssuer.start()
    })

    afterEach(() => issuer[Symbol.asyncDispose]())

    it('finds a key set without keys, or without one of the algorithms', async () => {
      const rsa = { ...issuer.oidc, algorithms: ['RS256'] }
      expect(await rig.about('authn', { authn: { oidc: rsa } })).to.satisfy(
        ([line]: string[]) => line?.startsWith('error') && line.includes('has no key for RS256'),
      )
      issuer.keys = []
      expect((await rig.about('authn', { authn: { oidc: issuer.oidc } }))[0]).to.match(
        /^error the key set .* cannot be read: the key set has no key/,
      )
    })

    it('warns if it does not respond while its keys are elsewhere', async () => {
      const failing = await startUpstream((_call, response) => response.writeHead(502).end())
      for (const [at, reason] of [
        ['https://127.0.0.1:1', 'connect ECONNREFUSED'],
        [failing.url, 'status 502'],
      ] as const) {
        const lines = await rig.about('authn', { authn: { oidc: { ...issuer.oidc, issuer: at } } })
        expect(lines[0]).to.match(/^ok the key set/)
        expect(lines[1])
          .to.include(`warning the issuer ${at} does not respond at ${at}/.well-known/`)
          .and.include(reason)
      }
      await failing[Symbol.asyncDispose]()
    })

    it('warns if its metadata contradict the policy', async () => {
      const provider = await startOAuthProvider('read')
      const oidc = { ...provider.oidc, issuer: `${provider.issuer}/` }
      const lines = await rig.about('authn', { authn: { oidc } })
      await provider[Symbol.asyncDispose]()
      expect(lines).to.include(
        `warning ${provider.issuer}/.well-known/openid-configuration says otherwise than authn.oidc: issuer is ${provider.issuer}`,
      )
    })
  })

  it('asks the control plane whether it accepts the key and can list the bucket, and uploads nothing', async () => {
    await using bucket = await startBucket()
    const keys = join(rig.home, 'keys.json')
    const key = addKey(keys)
    await using plane = await startControlPlane(bucket, keys)
    const audit = (auditKey: string) => ({
      audit: {
        ...{
          gatewayName: 'edge',
          gatewayVersion: '1',
          minFreeMb: 0,
          signer: { keyRef: 'file://audit.key' },
        },
        presign: { apiBaseUrl: plane.url, auditKey },
      },
    })
    expect((await rig.about('audit', audit(`Bearer ${key}`))).slice(-2)).to.deep.equal([
      'ok the key of the control plane can be used',
      'ok the bucket of the control plane can be listed',
    ])
    bucket.mayList = false
    const [denied] = (await rig.about('audit', audit(`Bearer ${key}`))).slice(-1)
    expect(denied).to.match(/^error the bucket of the control plane cannot be listed: .*STORE_UNAVAILABLE/)
    const { checks: found } = await rig.checks(audit('Bearer hunter2'))
    const last = found.filter(({ section }) => section === 'audit').at(-1)
    expect(last).to.include({ severity: 'error' })
    expect(last?.message).to.contain('401')
    expect(JSON.stringify(found)).not.to.contain('hunter2')
    expect(bucket.keys).to.deep.equal([])
  })

  it('requests no token from a token endpoint', async () => {
    const issuer = await TestIssuer.start()
    await using endpoint = await startTokenEndpoint()
    const brokers = {
      billing: {
        type: 'oidc_on_behalf',
        token_endpoint: endpoint.url,
        client_id: 'edge',
        client_secret_ref: 'env:SVC_KEY',
        inject: { header: 'authorization', format: 'bearer' },
      },
    }
    const lines = await rig.about('brokers', { authn: { oidc: issuer.oidc }, brokers })
    await issuer[Symbol.asyncDispose]()
    expect(lines.map((line) => line.split(' ')[0])).to.deep.equal(['ok', 'ok'])
    expect(endpoint.exchanges.map(({ form }) => [...form])).to.deep.equal([[]])
  })

  it('finds a webhook with a private name, one that responds, and an invalid secret', async () => {
    rig.env['SVC_HOOK'] = 'hunter2 is not base64'
    const lines = await rig.about('notices', {
      notices: [
        { url: 'https://localhost.localdomain/' },
        { url: rig.upstream.url, secretRef: 'env:SVC_HOOK' },
      ],
    })
    expect(lines[0]).to.match(/^error the webhook notices\[0\] at .* cannot be reached/)
    expect(lines[1]).to.match(/^ok the webhook notices\[1\] at/)
    expect(lines[2]).to.match(
      /^error the secret of the webhook notices\[1\] cannot be used: the secret is not base64$/,
    )
    expect(rig.upstream.calls.filter(({ method }) => method === 'HEAD')).to.have.length(2)
  })

  it('finds a runtime that does not respond', async () => {
    const runtime = {
      enforcement: { mode: 'remote', remote: { endpoint: 'http://127.0.0.1:1/', apiKeyRef: 'env:SVC_NONE' } },
    }
    expect((await rig.about('runtime', { runtime })).map((line) => line.split(' ')[0])).to.deep.equal([
      'error',
      'error',
    ])
  })

  it('starts each command and lists its tools with the callers that may use them', async () => {
    const entitlements = {
      default_plan: 'free',
      plans: { free: { allowlist: ['files/echo'] } },
      tenants: { acme: { plan: 'free', allowlist: ['files/*'], denylist: [] } },
    }
    const targets = {
      files: scriptedTarget(),
      modern: scriptedTarget('stateless'),
      broken: scriptedTarget('exit'),
    }
    const issuer = await TestIssuer.start()
    const { out, code } = await rig.run(rig.write({ targets, entitlements, authn: { oidc: issuer.oidc } }))
    await issuer[Symbol.asyncDispose]()
    expect(code).to.equal(1)
    expect(out).to.match(
      /ok +targets: the server "files" starts: version 3\.1\.0, revision 2025-06-18, \d+ tools: echo, pid/,
    )
    expect(out).to.include('the server "modern" starts: version 3.1.0, revision 2026-07-28')
    expect(out).to.match(/ok +targets: tenant "acme" may use of "files": all its tools/)
    expect(out).to.match(/ok +targets: each other tenant may use of "files": 1 tool: echo/)
    expect(out).to.match(/ok +targets: each other tenant may use of "modern": no tool/)
    expect(out).to.match(/error +targets: The MCP server "broken" is not running: it exited with code 4/)
  })
})
