// What a gateway refuses at start because its audit log would lose records, proof or their owner.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { bind, type Signer, tokens } from '@svc/core'
import { COSIGNATURE_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'

const local = LocalDevSigner.fromSeed(new Uint8Array(32).fill(5))
const remote: Signer = {
  keyId: local.keyId,
  sign: (data) => local.sign(data),
  verify: (data, sig) => local.verify(data, sig),
}

const audit = (home: string, changes: object = {}) => ({
  gatewayName: 'gw',
  gatewayVersion: '1.0.0',
  dir: join(home, 'audit'),
  ...changes,
})

/** A gateway that signs with `signer`. */
const signing =
  (signer: Signer, changes: object = {}) =>
  (home: string): GatewaySettings => ({
    targets: {},
    audit: audit(home, changes),
    configure: (container) => bind(container, tokens.Signer, { useValue: signer }),
  })

async function errorOf(start: Promise<AsyncDisposable>): Promise<string> {
  const gateway = await start.catch((error: unknown) => String(error))
  if (typeof gateway === 'string') return gateway
  await gateway[Symbol.asyncDispose]()
  throw new Error('the gateway started')
}

describe('a gateway does not start', () => {
  const presign = {
    apiBaseUrl: 'http://127.0.0.1:9',
    auditKey: 'Bearer k',
    tenant: 'acme',
    environment: 'prod',
    clientName: 'edge',
    clientVersion: '1.0.0',
  }
  const own = { environment: 'prod', clientName: 'edge', clientVersion: '1.0.0' }
  for (const key of ['tenant', 'environment', 'clientName', 'clientVersion'] as const) {
    it(`if ${key} of the records and of their upload differ, and names both`, async () => {
      const settings = (home: string): GatewaySettings => ({
        targets: {},
        audit: audit(home, {
          ...own,
          presign: { ...presign, [key]: 'other' },
          signer: { keyRef: `file://${join(home, 'key')}` },
        }),
      })
      const error = await errorOf(startTestGateway(settings))
      expect(error).to.match(new RegExp(`audit\\.(presign\\.)?${key}: `))
      expect(error).to.include('"other"').and.include(`"${presign[key]}"`)
      expect(error.split('\n')).to.have.length(1)
    })
  }

  it('with witnesses and a bound signer that has no public key', async () => {
    const log = {
      witnesses: [
        { url: 'http://127.0.0.1:9', key: formatVkey('w.example', COSIGNATURE_TYPE, local.publicKey) },
      ],
    }
    const error = await errorOf(startTestGateway(signing(remote, { log })))
    expect(error).to.include('witnesses needs a journal, and a log whose signer has no publicKey has none')
  })

  it('with a bound signer that has the keyId of another key', async () => {
    const other = { ...remote, keyId: `ed25519:${'0'.repeat(64)}`, publicKey: local.publicKey }
    const error = await errorOf(startTestGateway(signing(other)))
    expect(error).to.include(`has the keyId ${other.keyId}, but the id of its publicKey is ${local.keyId}`)
  })
})

describe('a gateway with audit.checkpoints: false', () => {
  it('starts with a bound signer that has no public key, and writes signed records without checkpoints', async () => {
    await using upstream = await startUpstream()
    const settings = signing(remote, { checkpoints: false })
    await using gateway = await startTestGateway((home) => ({
      ...settings(home),
      targets: { files: upstream.url },
    }))
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    await gateway.handle.close()
    expect(gateway.records()).to.have.length(1)
    expect(gateway.records()[0]).to.include({ key_id: local.keyId })
    expect(readdirSync(gateway.dir).filter((name) => name.endsWith('.checkpoint'))).to.deep.equal([])
  })

  it('reads the same from YAML', async () => {
    const policyYaml = (home: string, line: string) =>
      `audit:\n  gatewayName: gw\n  gatewayVersion: '1'\n  dir: ${home}/audit\n  ${line}\n`
    const start = (line: string) =>
      startTestGateway((home) => ({ ...signing(remote)(home), policyYaml: policyYaml(home, line) }))
    await using gateway = await start('checkpoints: false')
    expect((await fetch(`${gateway.url}/healthz`)).status).to.equal(200)
    await using other = await start('checkpoints: true')
    expect((await fetch(`${other.url}/healthz`)).status).to.equal(200)
  })
})
