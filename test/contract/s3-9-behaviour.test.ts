import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { AuditError } from 'svc-sdk/audit'
import { failing } from '../plugins/audit/log/upload/cloud.js'
import { TestIssuer } from '../support/issuer.js'
import { startWebhook } from '../support/webhook.js'
import { daily, envelope, isSigned, openUploadingLog } from './log.js'
import { complete, lastCall, refusal, refused, serving, starts } from './rig.js'
import { contractSection } from './section.js'

contractSection('3', 'States and transitions', ({ holds }) => {
  const sideEffects = (human_escalation: object) => ({
    security: { side_effects: { approve_high_risk: true, human_escalation } },
  })
  const human = 'security.side_effects.human_escalation'

  holds('a', 'Audit `status` is `ok` or `error`.', async () => {
    await using rig = await serving({}, ({ path }, response) => {
      response.writeHead(path.includes('bad') ? 500 : 200, { 'content-type': 'application/json' }).end('{}')
    })
    expect((await rig.call()).record.status).to.equal('ok')
    expect((await rig.call({ tool: 'bad@1' })).record.status).to.equal('error')
  })
  holds('b', '`policy.decision` is `allow` or `deny`.', async () => {
    await using rig = await serving({ security: { egress_allowlist: [] } })
    expect((await rig.call()).record.policy.decision).to.equal('allow')
    const { record } = await rig.call({ args: { url: 'https://a.example' } })
    expect(record.policy.decision).to.equal('deny')
  })
  holds('c', 'Enforcement `mode` is `observe` or `enforce`.', async () => {
    for (const mode of ['observe', 'enforce']) await starts({ enforcement: { mode } })
    refused({ enforcement: { mode: '' } }, 'enforcement.mode', 'observe or enforce')
  })
  holds('d', 'Approval strategies are the three named values.', async () => {
    for (const approval_strategy of ['auto_allow', 'single_approver', 'human_quorum'])
      await starts(sideEffects({ approval_strategy }))
    refused(sideEffects({ approval_strategy: '' }), `${human}.approval_strategy`, 'accepted is auto_allow')
  })
  holds('e', 'Time-out actions are the two named values.', async () => {
    for (const timeout_action of ['auto_approve', 'auto_reject'])
      await starts(sideEffects({ timeout_action }))
    refused(sideEffects({ timeout_action: '' }), `${human}.timeout_action`, 'accepted is auto_approve')
  })
  holds('f', 'The dedupe policy is `replay` or `reject`.', async () => {
    for (const duplicatePolicy of ['replay', 'reject'])
      await starts({ dedupe: { enabled: false, duplicatePolicy } })
    refused({ dedupe: { duplicatePolicy: '' } }, 'dedupe.duplicatePolicy', 'replay or reject')
  })
  holds('g', 'Upload progress is tracked per file in `.svc-presign-state.json`.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope({ nodeId: 'n', agentRef: 'r' }))
    await log.appender.flush()
    const { files } = JSON.parse(log.text('.svc-presign-state.json')) as { files: Record<string, object> }
    expect(Object.keys(files)).to.include(daily)
    expect(Object.keys(files).some((name) => name.startsWith('agents/n/'))).to.equal(true)
  })
  holds('h', 'After a successful upload the next one sends only bytes appended later.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    await log.appender.flush()
    expect(log.puts()).to.have.length(1)
    await log.appender.append(envelope({ tool: 'later@1' }))
    await log.appender.flush()
    expect(String(log.puts()[1]?.body)).to.match(/^\{[^\n]*later@1[^\n]*\}\n$/)
  })
  holds('i', 'After an upload that failed the same bytes are sent again.', async () => {
    await using log = await openUploadingLog()
    log.cloud.intercept = failing('/ingest/', 503, 1)
    await log.appender.append(envelope())
    await log.appender.flush()
    await log.cloud.until(() => log.puts().length === 2)
    const [first, second] = log.puts()
    expect(second?.path).to.equal(first?.path)
    expect(second?.body).to.deep.equal(first?.body)
  })
})

contractSection('4', 'Endpoints', ({ holds }) => {
  holds(
    'a',
    'POST `/api/auth/validate-key` resolves tenant, client and environment of an API key.',
    async () => {
      await using log = await openUploadingLog({}, ['tenant', 'environment', 'clientName', 'clientVersion'])
      await log.appender.append(envelope())
      await log.appender.flush()
      const [request] = log.cloud.asked('/api/auth/validate-key')
      expect(request).to.include({ method: 'POST' })
      expect([...log.cloud.objects.keys()].join()).to.include('tenants/acme/prod/clients/edge/1.0.0/')
    },
  )
  holds('b', '`/api/auth/validate-key` is not asked if all four metadata fields are set.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    expect(log.cloud.asked('/api/auth/validate-key')).to.have.length(0)
    expect(log.puts()).to.have.length(1)
  })
  holds('c', 'POST `/api/svc/upload-url` returns a presigned URL for a PUT of new audit bytes.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    const [request] = log.asks()
    expect(request).to.include({ method: 'POST' })
    expect(String(log.puts()[0]?.body)).to.equal(log.text(daily))
  })
  holds('d', 'Both calls carry the `Authorization` header; the PUT to the store does not.', async () => {
    await using log = await openUploadingLog({}, ['tenant'])
    await log.appender.append(envelope())
    await log.appender.flush()
    for (const path of ['/api/auth/validate-key', '/api/svc/upload-url'])
      expect(log.cloud.asked(path)[0]?.headers.authorization, path).to.equal('Bearer key-1')
    expect(log.puts()[0]?.headers).to.not.have.property('authorization')
  })
  for (const [letter, path, without] of [
    ['e', '/api/auth/validate-key', ['tenant']],
    ['f', '/api/svc/upload-url', []],
  ] as const) {
    holds(letter, `\`presign.timeoutMs\` bounds the call to \`${path}\`.`, async () => {
      const isSilent = (request: { path: string }) => request.path === path
      await using log = await openUploadingLog({ timeoutMs: 50 }, without, isSilent)
      await log.appender.append(envelope())
      await log.appender.flush()
      expect(log.cloud.asked(path)).to.have.length.above(0)
      expect(log.appender.status().upload?.error?.message).to.include('50 ms')
    })
  }
  holds('g', 'The gateway forwards to the upstream base URL of the server name.', async () => {
    await using rig = await serving()
    await rig.call({ args: { id: 1 } })
    expect(lastCall(rig)).to.include({ method: 'POST', path: '/invoke/read@1.0.0', body: '{"id":1}' })
    const unknown = await rig.gateway.invoke('/mcp/nosuch/read@1.0.0')
    expect(await unknown.json()).to.include({ error: 'TARGET_NOT_FOUND' })
  })
})

contractSection('5', 'Authentication', ({ holds }) => {
  holds('a', 'The raw key without `Bearer ` is refused.', async () => {
    const error = await openUploadingLog({ auditKey: 'key-1' }).catch((thrown: unknown) => thrown)
    expect(error).to.be.instanceOf(AuditError)
    expect(String(error)).to.include('Bearer <API_KEY>')
  })
  holds('b', 'Gateway clients send bearer tokens; other schemes are refused.', async () => {
    await using rig = await serving({ authn: {} })
    for (const authorization of ['Basic YTpi', 'Bearer', 'Bearer not-a-token']) {
      const { status, headers } = await rig.call({ headers: { authorization } })
      expect(status, authorization).to.equal(401)
      expect(headers.get('www-authenticate')).to.match(/^Bearer/)
    }
  })
  holds('c', 'A token that is present is validated also if a missing one is permitted.', async () => {
    await using rig = await serving({ authn: { allowUnauthenticated: true } })
    expect((await rig.call({ headers: { authorization: 'Bearer not-a-token' } })).status).to.equal(401)
  })
  holds('d', "The caller's token is not sent upstream.", async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await serving({ authn: { oidc: issuer.oidc } })
    const headers = { authorization: `Bearer ${await issuer.sign()}`, cookie: 'a=b' }
    expect((await rig.call({ headers })).status).to.equal(200)
    expect(lastCall(rig).headers).to.not.have.any.keys('authorization', 'cookie')
  })
  holds('e', 'Every envelope that the gateway writes is signed with Ed25519.', async () => {
    await using rig = await serving()
    await rig.call()
    await rig.call({ tool: 'write@1' })
    const [key = ''] = readFileSync(`${rig.gateway.dir}/public-keys`, 'utf8').trim().split('\n')
    const publicKey = Buffer.from(key.slice('ed25519:'.length), 'base64')
    for (const record of rig.gateway.records()) expect(isSigned(record, publicKey)).to.equal(true)
  })
})

contractSection('6', 'Events', ({ holds }) => {
  holds('a', 'Audit envelopes are written per hop, each with the span that caused it.', async () => {
    await using second = await serving()
    await using first = await serving((_home) => ({ targets: { files: `${second.gateway.url}/mcp/files` } }))
    const { record } = await first.call()
    expect(first.gateway.records()).to.have.length(1)
    expect(second.gateway.records()).to.have.length(1)
    expect(second.gateway.records()[0]).to.include({
      trace_id: record.trace_id,
      cause_trace_id: record.trace_id,
      cause_span_id: record.span_id,
    })
  })
  holds('b', 'The AP2 policy webhook is called if an address is set.', async () => {
    await using hook = await startWebhook()
    await using rig = await serving({ ap2: { mode: 'full', policyWebhookUrl: hook.url } })
    await rig.call()
    await hook.until(1)
    expect(hook.deliveries).to.have.length(1)
  })
})

contractSection('7', 'Errors', ({ holds }) => {
  holds('a', 'Starting throws when `audit` is missing.', () => {
    const { audit: _audit, ...rest } = complete
    expect(refusal({}, rest)).to.include('audit: the section "audit" is missing')
  })
  holds('b', 'Starting throws when `quotas` is missing.', () => {
    const { quotas: _quotas, ...rest } = complete
    expect(refusal({}, rest)).to.include('quotas: the section "quotas" is missing')
  })
  holds('c', 'Both are reported at once.', () => {
    const { audit: _audit, quotas: _quotas, ...rest } = complete
    expect(refusal({}, rest)).to.include('"audit" is missing').and.include('"quotas" is missing')
  })
  holds('d', 'A policy that leaves them out does not remove them.', async () => {
    await using rig = await serving({ policyObject: { privacy: {} } })
    expect((await rig.call()).status).to.equal(200)
  })
})

contractSection('8', 'Limits', ({ holds }) => {
  holds('a', 'Without `max_payload_kb` a payload is not a finding.', async () => {
    await using rig = await serving({ security: {} })
    const { status, record } = await rig.call({ args: { t: 'x'.repeat(500_000) } })
    expect(status).to.equal(200)
    expect(record.findings).to.deep.equal([])
  })
  holds('b', '`max_payload_kb` limits the response too.', async () => {
    await using rig = await serving({ security: { limits: { max_payload_kb: 1 } } }, (_call, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify('x'.repeat(2000)))
    })
    const { body, record } = await rig.call()
    expect(body).to.include({ error: 'PAYLOAD_TOO_LARGE', sent: true })
    expect(record.findings?.[0]).to.include({ reason: 'payload_too_large', effect: 'deny' })
  })
  holds('c', 'Limits are configurable; wrong values are refused.', () => {
    for (const [section, path] of [
      [{ security: { limits: { max_payload_kb: 0 } } }, 'security.limits.max_payload_kb'],
      [{ security: { limits: { max_duration_ms: -1 } } }, 'security.limits.max_duration_ms'],
      [remote({ timeoutMs: 0 }), 'runtime.enforcement.remote.timeoutMs'],
      [remote({ maxRetries: -1 }), 'runtime.enforcement.remote.maxRetries'],
      [remote({ retryBackoffMs: -1 }), 'runtime.enforcement.remote.retryBackoffMs'],
      [{ dedupe: { ttlSec: 0.5 } }, 'dedupe.ttlSec'],
      [{ audit: { ...complete.audit, retentionDays: 0 } }, 'audit.retentionDays'],
      [
        { security: { side_effects: { require_idempotency_key: 'yes' } } },
        'security.side_effects.require_idempotency_key',
      ],
    ] as const) {
      refused(section, path, 'accepted')
    }
  })
  holds('d', 'Without limits of the caller, quotas and rates are unlimited.', async () => {
    await using rig = await serving()
    for (let i = 0; i < 20; i++) expect((await rig.call()).status).to.equal(200)
  })
})

function remote(changes: object): Record<string, unknown> {
  return {
    runtime: { enforcement: { mode: 'remote', remote: { endpoint: 'http://127.0.0.1:9', ...changes } } },
  }
}

contractSection('9', 'Versioning', ({ holds }) => {
  holds('a', '`server` and `tool` in envelopes have the form `<name>@<version>`.', async () => {
    await using rig = await serving()
    const { record } = await rig.call({ tool: 'get%2Finvoice@2.1.0-rc.1' })
    expect(record).to.include({ server: 'files@2.1.0-rc.1', tool: 'get/invoice@2.1.0-rc.1' })
  })
  holds('b', '`security.allow_versions` restricts the versions of one server, and of no other.', async () => {
    await using rig = await serving((_home, files) => ({
      targets: { files, other: files },
      security: { allow_versions: { files: ['1.*'] } },
    }))
    expect((await rig.call({ tool: 'read@1.2.3' })).status).to.equal(200)
    expect((await rig.call({ tool: 'read@2.0.0' })).body).to.include({ denial_reason: 'version_unpinned' })
    expect((await rig.gateway.invoke('/mcp/other/read@2.0.0')).status).to.equal(200)
  })
})
