import { expect } from 'chai'
import { RecordingMeter } from '../../../../support/stage-rig.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, envelope, fixedClock } from './records.js'

describe('the lags that a log shows', () => {
  const dir = temporaryDir()

  it('rise while records wait for their seal, and while bytes wait for the disk', async () => {
    const clock = fixedClock()
    const meter = new RecordingMeter()
    await using appender = appenderIn(dir.path, { clock, meter })
    const read = (name: string) => meter.read(name)
    await appender.ready()
    await appender.seal()
    expect(read('svc_audit_seal_lag_seconds')).to.equal(0)
    clock.ms += 90_000
    expect(read('svc_audit_seal_lag_seconds')).to.equal(90)
    await appender.seal()
    expect(read('svc_audit_seal_lag_seconds')).to.equal(0)
    expect(read('svc_audit_queue_bytes')).to.equal(0)
    const written = appender.append(envelope())
    expect(read('svc_audit_queue_bytes')).to.be.greaterThan(100)
    await written
    expect(read('svc_audit_queue_bytes')).to.equal(0)
  })
})
