import { defaultOrigin, parseCheckpoint } from '@svc/plugin-audit/internal/log/format/checkpoint'
import { isOrigin } from '@svc/plugin-audit/internal/log/format/journal-line'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { journalOf } from '../seal/sealed-log.js'
import { appenderIn, envelope, memoryLogger } from '../writer/records.js'

const LOG_ID = '00112233445566778899aabbccddeeff'

describe('the default name of a log', () => {
  const dir = temporaryDir()

  it('is that of its writer, with the id of its records', () => {
    expect(defaultOrigin(LOG_ID, 'billing-gateway')).to.equal('billing-gateway.svc-audit/0011223344556677')
    expect(defaultOrigin(LOG_ID, 'Büro 3: a/b+c')).to.equal('Büro-3-a-b-c.svc-audit/0011223344556677')
    expect(defaultOrigin(LOG_ID)).to.equal('log.svc-audit/0011223344556677')
  })

  it('can be in a checkpoint, whatever the writer is called', () => {
    const root = Buffer.alloc(32).toString('base64')
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (writer) => {
        const origin = defaultOrigin(LOG_ID, writer)
        expect(isOrigin(origin)).to.equal(true)
        expect(parseCheckpoint(`${origin}\n1\n${root}\n`)?.origin).to.equal(origin)
      }),
      { seed: 24 },
    )
  })

  it('stays what the log began with, for a writer of another name too', async () => {
    const began = 'svc-audit.invalid/00112233445566778899aabbccddeeff'
    const logger = memoryLogger()
    for (const named of [{ origin: began }, { writer: 'another' }]) {
      await using appender = appenderIn(dir.path, { config: named, logger })
      await appender.append(envelope())
    }
    expect(journalOf(dir.path)[0]?.['origin']).to.equal(began)
    expect(await verifyLog(dir.path)).to.include({ verdict: 'intact', origin: began })
    expect(logger.entries).to.deep.equal([])
  })
})
