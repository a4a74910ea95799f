import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { bindDefault, definePlugin } from '@svc/core'
import { escalationService } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { startGatewayServer } from 'svc-sdk'
import { z } from 'zod'
import { startTestGateway } from '../../support/gateway.js'
import { rejectionOf } from '../../support/rejection.js'
import { signalled } from '../../support/signalled.js'
import { startUpstream } from '../../support/upstream.js'
import { escalationServicePlugin, TestEscalationService } from './escalation-service.js'
import { adminToken, ask, startAdminRig } from './rig.js'

const errorShape = ['error', 'message', 'sent', 'trace_id']

describe('the admin listener', () => {
  it('exists only with an admin section in the policy', async () => {
    await using gateway = await startTestGateway({ targets: { billing: 'http://127.0.0.1:1' } })
    expect(await gateway.handle.ready()).to.have.keys('port', 'url')
  })

  it('listens on a port of its own, on loopback', async () => {
    await using rig = await startAdminRig()
    expect(new URL(rig.adminUrl).hostname).to.equal('127.0.0.1')
    expect(rig.adminUrl).not.to.equal(rig.gateway.url)
  })

  it('responds to health checks without a token', async () => {
    await using rig = await startAdminRig()
    const { status, json } = await ask(rig.adminUrl, '/healthz', {})
    expect({ status, json }).to.deep.equal({ status: 200, json: { status: 'ok' } })
  })

  for (const path of ['/', '/api', '/api/escalations/', '/mcp/billing/x@1', '/readyz', '/metrics/']) {
    it(`returns 404 in the error shape for ${path}`, async () => {
      await using rig = await startAdminRig()
      const { status, json } = await rig.admin(path)
      expect(status).to.equal(404)
      expect(json).to.have.keys(errorShape).and.include({ error: 'TARGET_NOT_FOUND', sent: false })
    })
  }

  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    it(`returns 404 for ${method} on the list of escalations`, async () => {
      await using rig = await startAdminRig()
      expect((await rig.admin('/api/escalations', { method })).status).to.equal(404)
    })
  }

  describe('requires the token', () => {
    const wrong: [string, Record<string, string>][] = [
      ['no token', {}],
      ['another token', { authorization: `Bearer ${adminToken.slice(0, -1)}X` }],
      ['a part of the token', { authorization: `Bearer ${adminToken.slice(0, -1)}` }],
      ['the token in another scheme', { authorization: `Basic ${adminToken}` }],
      ['the token without a scheme', { authorization: adminToken }],
      ['two tokens', { authorization: `Bearer ${adminToken}, Bearer ${adminToken}` }],
    ]
    for (const path of ['/metrics', '/api/escalations', '/api/escalations/E1']) {
      for (const [name, headers] of wrong) {
        it(`for ${path} and refuses ${name}`, async () => {
          await using rig = await startAdminRig()
          rig.service.open('E1')
          const response = await rig.admin(path, { headers })
          expect(response.status).to.equal(401)
          expect(response.json).to.have.keys(errorShape).and.include({ error: 'UNAUTHENTICATED' })
          expect(response.headers.get('www-authenticate')).to.equal('Bearer realm="svc-admin"')
          expect(response.text).not.to.contain(adminToken.slice(0, -1))
        })
      }
    }

    it('for a vote before it reads the body', async () => {
      await using rig = await startAdminRig()
      rig.service.open('E1')
      const { status } = await rig.vote('E1', '{', 'wrong-token-of-the-tests')
      expect(status).to.equal(401)
      expect(rig.service.cases.get('E1')?.votes).to.deep.equal([])
    })

    it('whose scheme may be written in any case', async () => {
      await using rig = await startAdminRig()
      const { status } = await rig.admin('/metrics', { headers: { authorization: `bearer ${adminToken}` } })
      expect(status).to.equal(200)
    })

    it('except for the metrics if the policy sets no token and the listener is on loopback', async () => {
      await using rig = await startAdminRig({ admin: { port: 0 } })
      expect((await rig.admin('/metrics', { headers: {} })).status).to.equal(200)
      const { status, json } = await rig.admin('/api/escalations')
      expect(status).to.equal(401)
      expect(json['message']).to.match(/neither admin\.tokenRef nor authn\.oidc/)
    })
  })

  describe('against requests of web pages', () => {
    for (const host of [
      'evil.example',
      'evil.example:9090',
      '127.0.0.1.evil.example',
      '10.0.0.1',
      'localhost@evil.example',
    ]) {
      it(`refuses the Host header ${host}`, async () => {
        await using rig = await startAdminRig({ admin: { port: 0 } })
        const { status, text } = await rig.admin('/metrics', { headers: { host } })
        expect(status).to.equal(400)
        expect(text).not.to.contain('svc_calls')
      })
    }

    for (const host of ['localhost', 'localhost:1', '127.0.0.1', '[::1]:9090']) {
      it(`accepts the Host header ${host}`, async () => {
        await using rig = await startAdminRig()
        const authorization = `Bearer ${adminToken}`
        expect((await rig.admin('/metrics', { headers: { host, authorization } })).status).to.equal(200)
      })
    }

    it('accepts host names that the policy lists', async () => {
      await using rig = await startAdminRig({ admin: { port: 0, allowedHosts: ['ops.example.com'] } })
      expect((await rig.admin('/metrics', { headers: { host: 'ops.example.com:9' } })).status).to.equal(200)
      const refused = await rig.admin('/metrics', { headers: { host: 'other.example.com' } })
      expect(refused.json['message']).to.match(/admin\.allowedHosts/)
    })

    it('refuses requests of another origin, even with the token', async () => {
      await using rig = await startAdminRig()
      for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1', 'http://localhost']) {
        const headers = { origin, authorization: `Bearer ${adminToken}` }
        expect((await rig.admin('/api/escalations', { headers })).status).to.equal(403)
      }
    })

    it('accepts requests of its own origin', async () => {
      await using rig = await startAdminRig()
      const headers = { origin: rig.adminUrl, authorization: `Bearer ${adminToken}` }
      expect((await rig.admin('/api/escalations', { headers })).status).to.equal(200)
    })

    it('sends no CORS header', async () => {
      await using rig = await startAdminRig()
      const { headers } = await rig.admin('/api/escalations', {
        headers: { origin: rig.adminUrl, authorization: `Bearer ${adminToken}` },
      })
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).to.deep.equal([])
      expect(headers.get('cache-control')).to.equal('no-store')
      expect(headers.get('x-content-type-options')).to.equal('nosniff')
    })
  })

  describe('does not start if', () => {
    const start = (env: Record<string, string>, more: object = {}) =>
      startAdminRig({ env, admin: { port: 0, tokenRef: 'env:SVC_ADMIN' }, ...more })

    it('the token is not set', async () => {
      expect((await rejectionOf(start({}))).message).to.match(/^admin\.tokenRef: .*SVC_ADMIN is not set/)
    })

    it('the token is too short, and does not show it', async () => {
      const { message } = await rejectionOf(start({ SVC_ADMIN: 'hunter2' }))
      expect(message)
        .to.match(/^admin\.tokenRef: .*16 characters/)
        .and.not.contain('hunter2')
    })

    it('the token has characters that a header cannot carry, and does not show it', async () => {
      const { message } = await rejectionOf(start({ SVC_ADMIN: 'fünfzehn zeichen und mehr' }))
      expect(message)
        .to.match(/^admin\.tokenRef: /)
        .and.not.contain('zeichen')
    })

    it('the token file is outside the directories for keys', async () => {
      const admin = { port: 0, tokenRef: 'file:///etc/hostname' }
      expect((await rejectionOf(start({}, { admin }))).message).to.match(
        /admin\.tokenRef: .*outside the directories/,
      )
    })

    it('its port is in use', async () => {
      const holder = createServer().listen(0, '127.0.0.1')
      await new Promise((resolve) => holder.once('listening', resolve))
      const { port } = holder.address() as AddressInfo
      const error = await rejectionOf(startAdminRig({ admin: { port } }))
      await new Promise((resolve) => holder.close(resolve))
      expect(error).to.have.property('code', 'EADDRINUSE')
    })

    it('it would be open to a network without a token', () => {
      const options = {
        port: 0,
        tenant: 'acme',
        targets: {},
        quotas: { adapter: 'memory' as const },
        audit: { gatewayName: 'gw', gatewayVersion: '1', append: async () => undefined },
      }
      for (const host of ['0.0.0.0', '::', '10.1.2.3', 'admin.example.com', '127.0.0.1.example.com']) {
        expect(() => startGatewayServer({ ...options, admin: { port: 0, host } })).to.throw(/admin\.host/)
      }
    })
  })

  describe('when the policy is reloaded', () => {
    const policy = (admin?: object) => (admin === undefined ? {} : { admin })

    it('accepts only the token of the new policy', async () => {
      const env = { SVC_ADMIN: adminToken, SVC_NEXT: 'the-next-token-of-the-tests' }
      await using rig = await startAdminRig({ env })
      await rig.gateway.handle.reload(policy({ port: 0, tokenRef: 'env:SVC_NEXT' }))
      expect((await rig.admin('/metrics')).status).to.equal(401)
      const headers = { authorization: `Bearer ${env.SVC_NEXT}` }
      expect((await rig.admin('/metrics', { headers })).status).to.equal(200)
    })

    it('keeps the old policy if the token of the new one cannot be read', async () => {
      await using rig = await startAdminRig()
      const reload = rig.gateway.handle.reload(policy({ port: 0, tokenRef: 'env:NOWHERE' }))
      expect((await rejectionOf(reload)).message).to.match(/^admin\.tokenRef: /)
      expect((await rig.admin('/metrics')).text).to.match(/^svc_policy_reloads_total\{result="refused"\} 1$/m)
    })

    it('serves only health checks if the new policy has no admin section', async () => {
      const admin = { port: 0, tokenRef: 'env:SVC_ADMIN' }
      await using rig = await startAdminRig({ admin: undefined, policyObject: { admin } })
      expect((await rig.admin('/metrics')).status).to.equal(200)
      await rig.gateway.handle.reload({})
      expect((await rig.admin('/metrics')).status).to.equal(404)
      expect((await rig.admin('/api/escalations')).status).to.equal(404)
      expect((await rig.admin('/healthz')).status).to.equal(200)
    })

    it('keeps its port and warns if the new policy has another port', async () => {
      await using rig = await startAdminRig()
      await rig.gateway.handle.reload(policy({ port: 65_001, tokenRef: 'env:SVC_ADMIN' }))
      expect((await rig.admin('/metrics')).status).to.equal(200)
      const warned = rig.gateway.log.lines.filter(({ level }) => level === 'warn')
      expect(warned.map(({ fields }) => fields)).to.deep.include({ settings: ['admin.port'] })
    })

    it('completes a request under the policy with which the request began', async () => {
      const seen = { stopped: 0 }
      const service = new TestEscalationService()
      service.open('E1')
      const asked = signalled()
      const response = signalled()
      const find = service.find.bind(service)
      service.find = async (id) => {
        asked.resolve()
        await response.happened
        expect(seen.stopped).to.equal(0)
        return find(id)
      }
      await using rig = await startAdminRig({ plugins: [escalationServicePlugin(service, seen)] })
      const asking = rig.admin('/api/escalations/E1')
      await asked.happened
      await rig.gateway.handle.reload(policy())
      response.resolve()
      expect((await asking).status).to.equal(200)
    })
  })

  describe('when the gateway closes', () => {
    it('completes the requests in progress', async () => {
      const asked = signalled()
      const response = signalled()
      const rig = await startAdminRig()
      rig.service.open('E1')
      const find = rig.service.find.bind(rig.service)
      rig.service.find = async (id) => {
        asked.resolve()
        await response.happened
        return find(id)
      }
      const asking = rig.admin('/api/escalations/E1')
      await asked.happened
      const closing = rig.gateway.handle.close()
      response.resolve()
      expect((await asking).status).to.equal(200)
      await closing
      await rig[Symbol.asyncDispose]()
      expect(await rejectionOf(rig.admin('/healthz'))).to.have.property('code', 'ECONNREFUSED')
    })

    it('serves metrics until the last call has ended', async () => {
      const asked = signalled()
      const released = signalled()
      await using upstream = await startUpstream((_call, response) => {
        asked.resolve()
        void released.happened.then(() => response.end('{}'))
      })
      await using rig = await startAdminRig({ targets: { billing: upstream.url } })
      const call = rig.gateway.invoke('/mcp/billing/refund@1')
      await asked.happened
      const closing = rig.gateway.handle.close()
      const { text, headers } = await rig.admin('/metrics')
      expect(text)
        .to.match(/^svc_calls_in_flight 1$/m)
        .and.match(/^svc_ready 0$/m)
      expect(headers.get('connection')).to.equal('close')
      released.resolve()
      expect((await call).status).to.equal(200)
      await closing
    })
  })

  it('hides internal errors', async () => {
    const broken = definePlugin({
      name: 'broken',
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({}).prefault({}),
      create(_config, { container }) {
        const fail = () => {
          throw new Error('secret of the inside')
        }
        bindDefault(container, escalationService, { useCurrent: fail })
        return { handle: (_call, next) => next() }
      },
    })
    await using rig = await startAdminRig({ plugins: [broken] })
    const { status, text, json } = await rig.admin('/api/escalations')
    expect(status).to.equal(500)
    expect(json['error']).to.equal('INTERNAL')
    expect(text).not.to.contain('secret')
    expect(rig.gateway.log.lines.some(({ level }) => level === 'error')).to.equal(true)
  })
})
