import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { TestAuthority } from '../../support/certificates.js'
import { startOAuthProvider } from '../../support/oauth-provider.js'
import { ofEachTest } from '../../support/parts.js'
import { startRedis } from '../../support/redis.js'

import { DoctorRig, password } from './doctor-rig.js'

describe('svc doctor', () => {
  const rig = new DoctorRig()

  describe('on a policy without errors', () => {
    const redis = ofEachTest(() => startRedis(['--requirepass', password]))
    const provider = ofEachTest(() => startOAuthProvider('read'))

    function everything(): Record<string, unknown> {
      const redisUrl = redis.url.replace('://', `://:${password}@`)
      const tls = new TestAuthority(rig.home).server()
      return {
        admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['approver'] } },
        server: { tls: { key: `file://${tls.keyFile}`, cert: `file://${tls.certFile}` } },
        authn: { oidc: provider.oidc },
        brokers: {
          billing: {
            type: 'static',
            key_refs: ['env:SVC_KEY'],
            inject: { header: 'authorization', format: 'bearer' },
          },
        },
        quotas: { adapter: 'redis', redisUrl },
        dedupe: { enabled: true, redisUrl },
        security: { side_effects: { approve_high_risk: true } },
        enforcement: {
          escalate_on: ['tool_not_in_allowlist'],
          escalations: { adapter: 'redis', redisUrl },
        },
      }
    }

    it('prints its checks in lines and exits 0 without an error', async () => {
      const { out, code } = await rig.run(rig.write(everything()))
      expect(out.split('\n').filter((line) => line.startsWith('error'))).to.deep.equal([])
      expect(code).to.equal(0)
      expect(out)
        .to.match(/^ok +targets: the server "billing" at .* responds$/m)
        .and.match(/^ok +authn: the key set .* has 1 usable key$/m)
        .and.match(/^ok +server: the certificate can be used until 20/m)
        .and.match(/^ok +admin: the admin token can be used$/m)
        .and.match(/^ok +brokers: brokers.billing.key_refs\[0\] can be used$/m)
        .and.match(/^ok +quotas: the quota store \(redis\) can be used$/m)
        .and.match(/^ok +dedupe: the dedupe store \(redis\) can be used$/m)
        .and.match(/^ok +enforcement: the escalation store \(redis\) can be used$/m)
        .and.match(/^ok +audit: the signing key can be used$/m)
        .and.match(/audit: the log in .*audit is writable, made at the start/m)
    })

    it('leaves nothing behind: no file, no key in Redis, no call at the upstream', async () => {
      const file = rig.write(everything())
      const before = readdirSync(rig.home, { recursive: true })
      await rig.run(file)
      expect(readdirSync(rig.home, { recursive: true })).to.deep.equal(before)
      const client = `redis://:${password}@127.0.0.1:${redis.port}`
      const { Redis } = await import('ioredis')
      const connection = new Redis(client)
      expect(await connection.dbsize()).to.equal(0)
      connection.disconnect()
      const methods = rig.upstream.calls.map(({ body }) => body && JSON.parse(body).method)
      expect([...new Set(methods)].sort()).to.deep.equal(['', 'initialize', 'server/discover'])
    })

    it('does not print a secret, whether its checks pass or fail', async () => {
      const works = await rig.run(rig.write(everything()))
      const wrong = redis.url.replace('://', '://:hunter2-wrong@')
      rig.env['SVC_KEY'] = 'hunter2-with\na-line-break'
      const fails = await rig.run(
        rig.write({ ...everything(), quotas: { adapter: 'redis', redisUrl: wrong } }),
      )
      expect(fails.code).to.equal(1)
      expect(fails.out)
        .to.match(/^error +quotas: .*WRONGPASS/m)
        .and.match(/^error +brokers: .*not allowed in a header/m)
      expect(`${works.out}${fails.out}`).not.to.contain('hunter2')
    })
  })

  it('says which store does not respond, and what to do', async () => {
    const [line] = await rig.about('quotas', {
      quotas: { adapter: 'redis', redisUrl: 'redis://127.0.0.1:1' },
    })
    expect(line).to.match(
      /^error the quota store: Redis cannot be reached: connect ECONNREFUSED .*; start it, or correct redisUrl/,
    )
    const [open] = await rig.about('quotas', {
      quotas: { adapter: 'redis', redisUrl: 'redis://127.0.0.1:1', failure_mode: 'open' },
    })
    expect(open).to.match(/^warning Redis is not connected/)
  })

  it('finds a store on disk that is not a database', async () => {
    mkdirSync(join(rig.home, 'quotas'))
    writeFileSync(join(rig.home, 'quotas', 'data.mdb'), 'x'.repeat(100))
    const [line] = await rig.about('quotas', { quotas: { adapter: 'lmdb', dir: 'quotas' } })
    expect(line).to.match(/^error the quota store in .* cannot be used: data.mdb is not an LMDB database/)
    expect(readdirSync(join(rig.home, 'quotas'))).to.deep.equal(['data.mdb'])
  })

  it('finds a directory that is a file, and a disk without enough space', async () => {
    writeFileSync(join(rig.home, 'log'), '')
    const audit = { gatewayName: 'edge', gatewayVersion: '1', signer: { keyRef: 'file://audit.key' } }
    expect((await rig.about('audit', { audit: { ...audit, dir: 'log' } }))[1]).to.match(
      /^error the log in .*log is not writable: .*is not a directory/,
    )
    expect((await rig.about('audit', { audit: { ...audit, minFreeMb: 1e12 } }))[1]).to.match(
      /^warning the log in .* MiB free$/,
    )
  })

  it('finds keys that are missing, and one that others may read', async () => {
    rmSync(join(rig.home, 'audit.key'))
    delete rig.env['SVC_KEY']
    const more = {
      admin: { port: 0, tokenRef: 'file://admin.token', roles: { reviewer: ['approver'] } },
      authn: { oidc: { issuer: 'https://id.invalid/', audience: 'a', jwks_uri: 'http://127.0.0.1:1/' } },
      brokers: {
        billing: { type: 'static', key_refs: ['env:SVC_KEY'], inject: { header: 'x-key', format: 'raw' } },
      },
      privacy: { redact_identities: true, key_ref: 'env:SVC_PSEUDONYMS' },
    }
    const errors = (await rig.checks(more)).checks.filter(({ severity }) => severity === 'error')
    const sections = errors.map(({ section, hint }) => [section, hint !== undefined])
    expect(sections).to.have.deep.members([
      ['admin', true],
      ['audit', true],
      ['authn', true],
      ['brokers', true],
      ['privacy', true],
    ])
    generateKeyFile(join(rig.home, 'audit.key'))
    chmodSync(join(rig.home, 'audit.key'), 0o644)
    expect((await rig.about('audit'))[0]).to.match(/^warning anyone on this machine may read the key file/)
  })

  it('finds ports that are taken, by others or by the policy itself', async () => {
    const taken = await listening()
    const { port } = taken.address() as AddressInfo
    const [line] = await rig.about('port', { port })
    await new Promise((resolve) => taken.close(resolve))
    expect(line).to.match(
      /^error the gateway's address 127.0.0.1, port \d+ cannot be used: listen EADDRINUSE/,
    )
    const { certFile, keyFile } = new TestAuthority(rig.home).server('gateway')
    const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
    const tls = { key: `file://${keyFile}`, cert: `file://${certFile}` }
    const respond: RequestListener = (_request, response) => response.end('{"status":"ok"}')
    for (const [gateway, server] of [
      [createHttpServer(respond), {}],
      [createHttpsServer(pair, respond), { tls }],
    ] as const) {
      const running = gateway.listen(0, '127.0.0.1')
      await once(running, 'listening')
      const [own] = await rig.about('port', { server, port: (running.address() as AddressInfo).port })
      await new Promise((resolve) => running.close(resolve))
      expect(own).to.match(
        /^warning the gateway's address 127.0.0.1, port \d+ is in use, as if the gateway runs$/,
      )
    }
    const both = await rig.about('port', { port, admin: { port, tokenRef: 'env:SVC_ADMIN' } })
    expect(both.map((one) => one.split(' ')[0])).to.deep.equal(['ok', 'error'])
  })

  it('finds certificates that expire or do not belong to their keys', async () => {
    const authority = new TestAuthority(rig.home)
    const [soon, other] = [authority.server('soon', 3), authority.server('other')]
    const tls = (key: string, cert: string) => ({
      server: { tls: { key: `file://${key}`, cert: `file://${cert}` } },
    })
    expect((await rig.about('server', tls(soon.keyFile, soon.certFile)))[0]).to.match(
      /^warning tls.cert: the certificate expires at/,
    )
    expect((await rig.about('server', tls(soon.keyFile, other.certFile)))[0]).to.match(
      /^error tls.cert: the certificate does not belong to tls.key/,
    )
  })

  it('runs the checks of custom plugins, and reports one that throws', async () => {
    writeFileSync(
      join(rig.home, 'custom.mjs'),
      `export default {
        name: 'custom', version: '1.0.0', core: '^1.0.0',
        schema: { safeParse: () => ({ success: true, data: {} }), '~standard': {}, _zod: { def: { type: 'any' } } },
        create: () => ({
          handle: (_call, next) => next(),
          doctor: async () => { throw new Error('the vault is sealed') },
        }),
      }`,
    )
    expect(await rig.about('custom', { plugins: [{ use: './custom.mjs' }] })).to.deep.equal([
      'error the vault is sealed',
    ])
  })

  it('reports the mistakes of a policy without opening anything', async () => {
    const file = rig.write({ quota: {} })
    const { out, code } = await rig.run(file)
    expect(code).to.equal(1)
    expect(out)
      .to.match(/^error +policy: .*quota/m)
      .and.not.match(/ targets:/)
    expect(rig.upstream.calls).to.deep.equal([])
    expect((await rig.run(join(rig.home, 'none.yaml'))).code).to.equal(2)
  })
})

async function listening(): Promise<Server> {
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}
