import { type AuditReport, signReport } from '@svc/plugin-audit/tools'
import { expect } from 'chai'

describe('the signature of a report', () => {
  it('is refused to a signer without a public key, as nobody could check it', async () => {
    const signer = { keyId: 'kms:audit', sign: () => new Uint8Array(64), verify: () => true }
    const refused = await signReport({} as AuditReport, signer).catch((error: unknown) => error)
    expect(refused).to.include({ name: 'AuditError', code: 'bad_config' })
  })
})
