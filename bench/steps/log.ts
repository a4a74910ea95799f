// The cost of signing and of the durable write: the same records under load, with a real signer and with a stub.
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import type { Step } from './step.js'

const IN_FLIGHT = 16
const RECORDS = 10_000

/** `envelope` is the record of a call of the benchmarks. */
export async function logSteps(disk: string, keyFile: string, envelope: AuditEnvelope): Promise<Step[]> {
  const signer = LocalDevSigner.fromKeyRef(`file://${keyFile}`)
  const message = Buffer.from(canonicalize(envelope))
  const signing = cpuOf(() => {
    for (let i = 0; i < RECORDS; i++) signer.sign(message)
  })
  const unsigned = {
    keyId: signer.keyId,
    sign: () => new Uint8Array(64),
    verify: () => true,
  }
  const dir = await mkdtemp(join(disk, 'unsigned-'))
  const appender = new SvcAppender({ config: { dir, retentionDays: 30 }, signer: unsigned })
  try {
    await append(appender, envelope)
    const before = process.cpuUsage()
    await append(appender, envelope)
    return [
      { name: 'sign', micros: signing / RECORDS },
      { name: 'serialise, write, fdatasync', micros: micros(process.cpuUsage(before)) / RECORDS },
    ]
  } finally {
    await appender.close()
    await rm(dir, { recursive: true })
  }
}

async function append(appender: SvcAppender, envelope: AuditEnvelope): Promise<void> {
  let left = RECORDS
  const loop = async () => {
    while (left-- > 0) await appender.append(envelope)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, loop))
}

function cpuOf(work: () => void): number {
  const before = process.cpuUsage()
  work()
  return micros(process.cpuUsage(before))
}

function micros({ user, system }: NodeJS.CpuUsage): number {
  return user + system
}
