import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { type AuditEnvelope, AuditError } from 'svc-sdk/audit'
import { canonicalize, fromBase64, LocalDevSigner, sha256Hex, toBase64 } from 'svc-sdk/signer'
import { startCloud } from '../plugins/audit/log/upload/cloud.js'
import { daily, envelope, isSigned, openLog, openUploadingLog, presignFor, today } from './log.js'
import { serving } from './rig.js'
import { contractSection } from './section.js'

/** The raw payloads of one call through a gateway, input first. */
async function payloads() {
  const cloud = await startCloud()
  const rig = await serving(
    (home) => ({
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: `${home}/audit`,
        signer: { keyRef: `file://${home}/key` },
        presign: presignFor(cloud),
        raw_payloads: true,
        rawPreviewBytes: 64,
      },
    }),
    (_call, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ text: 'x'.repeat(200) }))
    },
  )
  const response = await rig.call({
    args: { password: 'hunter2' },
    headers: { 'x-node-id': 'n', 'x-agent-ref': 'run-9' },
  })
  // Closing the gateway waits for the payloads, which no call waits for.
  await rig.gateway.handle.close()
  const lines = readFileSync(`${rig.gateway.dir}/raw/raw-${today}.ndjson`, 'utf8').split('\n').filter(Boolean)
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  return {
    response,
    input: records.find(({ direction }) => direction === 'input') ?? {},
    output: records.find(({ direction }) => direction === 'output') ?? {},
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]()
      await cloud[Symbol.asyncDispose]()
    },
  }
}

contractSection('2.2', 'Raw payload record', ({ holds, given }) => {
  const raw = given(payloads)
  holds('a', '`ts` is an ISO 8601 timestamp.', () => {
    const ts = String(raw().input['ts'])
    expect(new Date(ts).toISOString()).to.equal(ts)
  })
  holds('b', '`trace_id` is the trace id of the call.', () => {
    expect(raw().input['trace_id']).to.equal(raw().response.record.trace_id)
  })
  holds('c', '`span_id` is the span id of the call.', () => {
    expect(raw().input['span_id']).to.equal(raw().response.record.span_id)
  })
  holds('d', '`runId` is the run identifier.', () => expect(raw().input['runId']).to.equal('run-9'))
  holds('e', '`tenant` is the tenant.', () => expect(raw().input['tenant']).to.equal('acme'))
  holds('f', '`direction` is `input` for requests, and another value for responses.', () => {
    expect(raw().input['direction']).to.equal('input')
    expect(raw().output['direction']).to.equal('output')
  })
  holds('g', '`payload_preview` is a redacted preview.', () => {
    expect(raw().input['payload_preview']).to.equal('{"password":"[redacted]"}')
  })
  holds('h', '`payload_truncated` says whether the preview is truncated.', () => {
    expect(raw().input['payload_truncated']).to.equal(false)
    expect(raw().output['payload_truncated']).to.equal(true)
  })
  holds('i', '`payload_bytes` is the size of the whole payload in bytes.', () => {
    expect(raw().input['payload_bytes']).to.equal('{"password":"hunter2"}'.length)
    expect(raw().output['payload_bytes']).to.equal('{"text":""}'.length + 200)
  })
})

contractSection('2.3', 'Upload configuration', ({ holds }) => {
  const uploadBody = async (presign: object, without: readonly string[] = []) => {
    await using log = await openUploadingLog(presign, without)
    await log.appender.append(envelope())
    await log.appender.flush()
    const [request] = log.asks()
    return { headers: request?.headers, body: JSON.parse(String(request?.body)) as Record<string, unknown> }
  }
  holds('a', '`apiBaseUrl` is the base address of the control plane.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    expect(log.cloud.requests[0]?.path).to.equal('/api/svc/upload-url')
    await expectRejected({ apiBaseUrl: 'ftp://x' }, 'apiBaseUrl')
  })
  holds('b', '`auditKey` is the exact value of the `Authorization` header.', async () => {
    const { headers } = await uploadBody({ auditKey: 'Custom a b' })
    expect(headers?.authorization).to.equal('Custom a b')
  })
  for (const [letter, field, sent, value] of [
    ['c', 'tenant', 'tenant', 'umbrella'],
    ['d', 'environment', 'env', 'staging'],
    ['e', 'clientName', 'clientName', 'cli'],
    ['f', 'clientVersion', 'clientVersion', '2.0.0'],
  ] as const) {
    holds(letter, `\`${field}\` is sent with each upload.`, async () => {
      const { body } = await uploadBody({ [field]: value })
      expect(body[sent]).to.equal(value)
      expect(body['key']).to.include(value)
    })
  }
  holds('g', '`timeoutMs` bounds the calls to the control plane, in milliseconds.', async () => {
    await using log = await openUploadingLog(
      { timeoutMs: 50 },
      [],
      ({ path }) => path === '/api/svc/upload-url',
    )
    await log.appender.append(envelope())
    await log.appender.flush()
    expect(log.appender.status().upload?.error?.message).to.include('50 ms')
  })
  holds('h', 'With an OIDC access token all four metadata fields must be set.', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const token = `Bearer ${part({ alg: 'RS256' })}.${part({ sub: 'x' })}.c2ln`
    const { body } = await uploadBody({ auditKey: token })
    expect(body['tenant']).to.equal('acme')
    for (const field of ['tenant', 'environment', 'clientName', 'clientVersion']) {
      await expectRejected({ auditKey: token }, `presign.${field}`, [field])
    }
  })
  holds('i', 'The writer takes tenant, environment and client metadata of records from it.', async () => {
    await using log = await openUploadingLog({ tenant: 'umbrella' })
    const { tenant: _tenant, ...record } = envelope()
    await log.appender.append(record as AuditEnvelope)
    expect(log.lines(daily)[0]).to.include({
      tenant: 'umbrella',
      environment: 'prod',
      client_name: 'edge',
      client_version: '1.0.0',
    })
  })
})

async function expectRejected(
  presign: object,
  words: string,
  without: readonly string[] = [],
): Promise<void> {
  const error = await openUploadingLog(presign, without).catch((thrown: unknown) => thrown)
  expect(error).to.be.instanceOf(AuditError)
  expect(String(error)).to.include(words)
}

contractSection('2.4', 'Signer interface', ({ holds }) => {
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(3))
  const data = new TextEncoder().encode('data')
  holds(
    'a',
    '`keyId` identifies the key, and is in every record of the log that the gateway writes.',
    async () => {
      expect(signer.keyId).to.equal(`ed25519:${sha256Hex(signer.publicKey)}`)
      await using rig = await serving((home) => ({
        audit: {
          gatewayName: 'gw',
          gatewayVersion: '1.0.0',
          dir: `${home}/audit`,
          signer: { keyRef: `file://${home}/key` },
        },
      }))
      const { record } = await rig.call()
      expect(record.key_id).to.match(/^ed25519:[0-9a-f]{64}$/)
    },
  )
  holds('b', '`sign` takes bytes and returns the signature as bytes.', () => {
    const signature = signer.sign(data)
    expect(signature).to.be.instanceOf(Uint8Array).with.length(64)
    expect(signer.sign(new TextEncoder().encode('other'))).to.not.deep.equal(signature)
  })
  holds('c', '`verify` says whether a signature is right.', () => {
    const signature = signer.sign(data)
    expect(signer.verify(data, signature)).to.equal(true)
    expect(signer.verify(new TextEncoder().encode('other'), signature)).to.equal(false)
  })
  holds('d', '`LocalDevSigner.fromKeyRef` builds a signer from `file://<path-to-ed25519-key>`.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope())
    expect(log.signer).to.be.instanceOf(LocalDevSigner)
    expect(isSigned(log.lines(daily)[0] ?? {}, log.signer.publicKey!)).to.equal(true)
    expect(() => LocalDevSigner.fromKeyRef('file:///nowhere/key')).to.throw('/nowhere/key')
    expect(() => LocalDevSigner.fromKeyRef('/nowhere/key')).to.throw('file://')
  })
  holds('e', '`sha256Hex(data)` is the SHA-256 digest as hex.', () => {
    expect(sha256Hex('abc')).to.equal(createHash('sha256').update('abc').digest('hex'))
    expect(sha256Hex(new TextEncoder().encode('abc'))).to.equal(
      createHash('sha256').update('abc').digest('hex'),
    )
  })
  holds('f', '`canonicalize(value)` is deterministic JSON with sorted keys.', () => {
    expect(canonicalize({ b: [1, { d: 1, c: 2 }], a: 'é' })).to.equal('{"a":"é","b":[1,{"c":2,"d":1}]}')
    expect(canonicalize({ x: 1, y: 2 })).to.equal(canonicalize({ y: 2, x: 1 }))
  })
  holds('g', '`toBase64(u8)` encodes as Base64.', () => {
    expect(toBase64(new Uint8Array([255, 254, 253]))).to.equal('//79')
  })
  holds('h', '`fromBase64(b64)` decodes Base64.', () => {
    expect([...fromBase64('//79')]).to.deep.equal([255, 254, 253])
  })
  holds('i', 'The message signed is the bytes of `canonicalize(payload)`.', async () => {
    await using log = await openLog({}, { signer })
    await log.appender.append(envelope())
    const [{ sig, ...unsigned } = { sig: '' }] = log.lines(daily)
    const signature = fromBase64(String(sig).slice('ed25519:'.length))
    const message = new TextEncoder().encode(canonicalize(unsigned))
    expect(signer.verify(message, signature)).to.equal(true)
  })
  holds('j', 'The stored signature is `ed25519:` and the Base64 of the signature bytes.', async () => {
    await using log = await openLog({}, { signer })
    await log.appender.append(envelope())
    const [{ sig, ...unsigned } = { sig: '' }] = log.lines(daily)
    const bytes = signer.sign(new TextEncoder().encode(canonicalize(unsigned)))
    expect(sig).to.equal(`ed25519:${toBase64(bytes)}`)
  })
})
