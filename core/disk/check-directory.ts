// Checks for `svc doctor` whether the gateway can keep files in a directory. Creates and writes nothing.
import { constants, type StatsFs } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { DoctorCheck } from '../doctor/check.js'
import { messageOf } from '../json/message.js'
import { fileSystemKind, fileSystemRisk } from './file-system-kind.js'

const mebibyte = 1_048_576

/** `subject` names the directory in messages. Less free space than `minFreeMb` is a warning. */
export async function checkDirectory(
  subject: string,
  directory: string,
  minFreeMb = 64,
): Promise<DoctorCheck[]> {
  const dir = resolve(directory)
  const place = `${subject} ${dir}`
  let existing: string
  let disk: StatsFs
  try {
    existing = await existingPart(dir)
    await access(existing, constants.W_OK | constants.X_OK)
    disk = await statfs(existing)
  } catch (error) {
    const hint = 'give the user of the gateway a directory that it may write to'
    return [{ severity: 'error', message: `${place} is not writable: ${messageOf(error)}`, hint }]
  }
  const kind = fileSystemKind(disk.type)
  if (kind?.isLocal === false) {
    const message = `${place} lies on ${kind.name}, ${fileSystemRisk}`
    return [{ severity: 'error', message, hint: 'use a directory of a local disk' }]
  }
  if (kind === undefined && process.platform === 'linux') {
    const message = `${place} lies on a file system that is not known to be local, ${fileSystemRisk}`
    return [{ severity: 'warning', message, hint: 'use a directory of a local disk' }]
  }
  const freeMb = Math.floor((disk.bavail * disk.bsize) / mebibyte)
  const where = kind === undefined ? '' : `, on ${kind.name}`
  const missing = existing === dir ? '' : ', made at the start'
  const message = `${place} is writable${missing}${where}, ${freeMb} MiB free`
  if (freeMb < minFreeMb) {
    return [{ severity: 'warning', message, hint: `free ${minFreeMb} MiB at least` }]
  }
  if (kind?.name === 'tmpfs') {
    return [{ severity: 'warning', message, hint: 'tmpfs is lost with the machine; use a disk' }]
  }
  return [{ severity: 'ok', message }]
}

/** The directory, or the nearest of its parents that exists. Rejects if that is not a directory. */
async function existingPart(dir: string): Promise<string> {
  try {
    if ((await stat(dir)).isDirectory()) return dir
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (!isMissing || dirname(dir) === dir) throw error
    return existingPart(dirname(dir))
  }
  throw new Error(`${dir} is not a directory`)
}
