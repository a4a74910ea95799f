import { expect } from 'chai'
import sinon from 'sinon'
import { RecordingMeter } from '../../../../support/stage-rig.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, codeOf, diskWith, envelope, ioError as error, memoryLogger } from './records.js'

const MIB = 1_048_576

describe('the free space of the disk', () => {
  const dir = temporaryDir()
  let clock: sinon.SinonFakeTimers
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  })
  afterEach(() => clock.restore())

  function watched(options: { free: number; minFreeBytes?: number }) {
    const disk = { free: options.free as number | Error }
    const logger = memoryLogger()
    const metrics = new RecordingMeter()
    const fileSystem = diskWith({
      statfs: (_path, done) => {
        const { free } = disk
        if (free instanceof Error) done(free, { bavail: 0, bsize: 0 })
        else done(null, { bavail: free / 4096, bsize: 4096 })
      },
    })
    const { minFreeBytes } = options
    const appender = appenderIn(dir.path, {
      fileSystem,
      logger,
      meter: metrics,
      ...(minFreeBytes === undefined ? {} : { config: { minFreeBytes } }),
    })
    return { disk, logger, metrics, appender }
  }

  it('is reported without a warning while there is enough', async () => {
    const { appender, metrics } = watched({ free: 600 * MIB })
    await appender.ready()
    await appender.append(envelope())
    expect(appender.status())
      .to.include({ freeBytes: 600 * MIB })
      .and.not.have.property('warning')
    expect(metrics.read('svc_audit_disk_free_bytes')).to.equal(600 * MIB)
    await appender.close()
  })

  it('is warned about once while it is low, and the log is still written', async () => {
    const { appender, metrics, logger, disk } = watched({ free: 100 * MIB, minFreeBytes: 200 * MIB })
    await appender.append(envelope())
    expect(appender.status()).to.include({
      writable: true,
      warning: 'the disk of the log has 100 MiB left, less than 200',
    })
    disk.free = 90 * MIB
    await clock.tickAsync(30_000)
    expect(appender.status().warning).to.include('90 MiB')
    expect(metrics.values.get('svc_audit_disk_low_total')).to.equal(1)
    expect(logger.entries.filter(({ message }) => message.includes('low on space'))).to.have.length(1)
    disk.free = 300 * MIB
    await clock.tickAsync(30_000)
    expect(appender.status()).not.to.have.property('warning')
    await appender.close()
  })

  it('is never low if the limit is 0', async () => {
    const { appender } = watched({ free: 0, minFreeBytes: 0 })
    await appender.append(envelope())
    expect(appender.status()).to.include({ freeBytes: 0 }).and.not.have.property('warning')
    await appender.close()
  })

  it('is logged if it cannot be read, without other effects', async () => {
    const { appender, logger, disk } = watched({ free: 600 * MIB })
    disk.free = error('EIO')
    await appender.append(envelope())
    expect(appender.status()).not.to.have.property('freeBytes')
    expect(logger.entries.map(({ message }) => message)).to.include(
      "the free space of the log's disk cannot be read",
    )
    await appender.close()
    expect(await codeOf(appender.append(envelope()))).to.equal('closed')
  })

  for (const minFreeBytes of [-1, Number.NaN])
    it(`refuses a limit of ${minFreeBytes} bytes`, () => {
      expect(() => watched({ free: 0, minFreeBytes })).to.throw('minFreeBytes')
    })
})
