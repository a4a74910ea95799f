import { truncateSync } from 'node:fs'
import { join } from 'node:path'
import { type Notice, type Notices, tokens } from '@svc/core'
import { auditPlugin, auditSchema } from '@svc/plugin-audit'
import { LogNotices } from '@svc/plugin-audit/internal/open-log'
import { AuditError, type UploadStatus } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { StageRig } from '../../support/stage-rig.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { append } from './log/seal/rig.js'
import { appenderIn, DAY, fixedClock, signer } from './log/writer/records.js'

const upload: UploadStatus = {
  state: 'retrying',
  uploadedBytes: 0,
  objects: 0,
  pendingBytes: 7,
  pendingSince: Date.parse('2026-11-21T12:00:00Z'),
  isBehind: true,
  failures: 1,
}

describe('notices of the log', () => {
  const dir = temporaryDir()
  let sent: Notice[]
  const port = { send: (notice: Notice) => void sent.push(notice) }
  beforeEach(() => {
    sent = []
  })

  it('are sent once when the log cannot be written, and once when it can again', () => {
    const notices = new LogNotices(port)
    notices.check({ writable: true })
    const error = new AuditError('write_failed', 'no space')
    for (let i = 0; i < 3; i++) notices.check({ writable: false, error })
    for (let i = 0; i < 3; i++) notices.check({ writable: true })
    expect(sent).to.deep.equal([
      {
        type: 'audit.unwritable',
        data: { writable: false, message: 'the log cannot be written: no space' },
      },
      { type: 'audit.unwritable', data: { writable: true, message: 'the log can be written again' } },
    ])
  })

  it('are sent once when the upload is behind, and once when it has caught up', () => {
    const notices = new LogNotices(port)
    for (const isBehind of [false, true, true, false]) {
      notices.check({ writable: true, upload: { ...upload, isBehind } })
    }
    expect(sent).to.deep.equal([
      {
        type: 'audit.upload_behind',
        data: {
          behind: true,
          message: 'the upload is behind: 7 bytes wait, the oldest since 2026-11-21T12:00:00.000Z',
        },
      },
      {
        type: 'audit.upload_behind',
        data: { behind: false, message: 'the upload of the log has caught up' },
      },
    ])
  })

  async function sealedLog(): Promise<void> {
    const appender = appenderIn(dir.path)
    await append(appender, 3)
    await appender.close()
  }

  function rigOf(): StageRig {
    const rig = new StageRig()
    rig.bind(tokens.Signer, signer)
    rig.bind(tokens.Clock, fixedClock())
    rig.bind<Notices>(tokens.Notices, port)
    return rig
  }

  const config = () =>
    auditSchema.parse({ gatewayName: 'gw', gatewayVersion: '1', dir: dir.path, intent: 'off' })

  it('report missing sealed bytes when the log is opened', async () => {
    await sealedLog()
    truncateSync(join(dir.path, `audit-${DAY}.ndjson`), 10)
    await using rig = rigOf()
    await rig.start(auditPlugin, config())
    expect(sent.map(({ type }) => type)).to.deep.equal(['audit.tampered'])
    expect(sent[0]?.data['message']).to.include(`the log of ${DAY} was changed after it was sealed`)
  })

  it('report a log that cannot be continued', async () => {
    await sealedLog()
    truncateSync(join(dir.path, 'audit.journal'), 10)
    await using rig = rigOf()
    const failure = await rig.start(auditPlugin, config()).catch((error: unknown) => error)
    expect(failure).to.have.property('code', 'log_unlinked')
    expect(sent.map(({ type }) => type)).to.deep.equal(['audit.tampered'])
  })
})
