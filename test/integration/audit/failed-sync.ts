// One sync of a file or a folder fails. What it covered is reported as failed, and nothing else is lost.

import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import type { FileSystem } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import {
  appenderIn,
  DAY,
  diskWith,
  envelope,
  ioError,
  spansOf,
} from '../../plugins/audit/log/writer/records.js'
import type { Chance } from '../../support/chance.js'
import { type Experiment, eachRound, expectIntact, expectOnceEach, type Figures } from './experiment.js'

const BURSTS = 12
// Syncs of every round: one for each burst, and those of the names, the key and the last checkpoint.
const FEWEST_SYNCS = 16

export const failedSync: Experiment = {
  name: 'failed-sync',
  full: 200,
  short: 3,
  rounds: (count, seed) => eachRound(count, seed, round),
}

async function round(chance: Chance, dir: string): Promise<Figures> {
  const failing = failOnce(chance.int(1, FEWEST_SYNCS))
  const errors: Error[] = []
  const appender = appenderIn(dir, {
    fileSystem: failing.fileSystem,
    onAsyncError: (error) => errors.push(error),
  })
  const acknowledged: string[] = []
  let rejected = 0
  for (let burst = 0; burst < BURSTS; burst++) {
    const agent = chance.int(0, 1) === 0 ? {} : { nodeId: 'n', agentRef: 'r' }
    const records = Array.from({ length: chance.int(1, 20) }, () => envelope(agent))
    const ends = await Promise.allSettled(records.map((record) => appender.append(record)))
    for (const [index, end] of ends.entries()) {
      if (end.status === 'rejected') rejected++
      else acknowledged.push(records[index]?.span_id ?? '')
    }
    if (chance.int(0, 2) === 0) await appender.seal().catch((error: Error) => errors.push(error))
  }
  await appender.close()
  expect(failing.count, 'syncs that failed').to.equal(1)
  expect(rejected + errors.length, 'the failure is reported').to.be.greaterThan(0)

  // The next opening repairs a failed sync of the last checkpoint.
  const after = appenderIn(dir)
  await after.ready()
  await after.close()
  const spans = spansOf(dir, `audit-${DAY}.ndjson`)
  expectOnceEach(spans, acknowledged)
  expect(spans.length).to.be.at.most(acknowledged.length + rejected)
  await expectIntact(dir)
  return { acknowledged: acknowledged.length, rejected, 'told in the background': errors.length }
}

/** The real disk, on which the `nth` sync fails. */
function failOnce(nth: number) {
  const failing = { count: 0, fileSystem: nodeFileSystem }
  let seen = 0
  const isTheOne = () => {
    if (++seen !== nth) return false
    failing.count++
    return true
  }
  const sync = (how: 'fsync' | 'fdatasync'): FileSystem['fsync'] => {
    return (fd, done) => {
      if (isTheOne()) setImmediate(() => done(ioError('EIO')))
      else nodeFileSystem[how](fd, done)
    }
  }
  failing.fileSystem = diskWith({
    fsync: sync('fsync'),
    fdatasync: sync('fdatasync'),
    fsyncSync: (fd) => {
      if (isTheOne()) throw ioError('EIO')
      nodeFileSystem.fsyncSync(fd)
    },
  })
  return failing
}
