// Has the temporary files of a run in memory where the system offers that, as a disk takes milliseconds for each of the syncs that
// logs and stores wait for. A run that has TMPDIR set keeps to it.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const memory = '/dev/shm'
/** Of which a run fills a small part. */
const minFreeBytes = 2 * 1024 ** 3

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memory)
    return bavail * bsize >= minFreeBytes
  } catch {
    // There is no such directory on other systems than Linux.
    return false
  }
}

/** Containers often mount the directory without the right to run programs, which some tests write. */
function runsPrograms(directory: string): boolean {
  const program = join(directory, 'program')
  writeFileSync(program, '#!/bin/sh\nexit 0\n', { mode: 0o700 })
  const { status } = spawnSync(program)
  rmSync(program)
  return status === 0
}

// The processes that run the files inherit the variable.
if (process.env['TMPDIR'] === undefined && hasRoom()) {
  const directory = mkdtempSync(join(memory, 'svc-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }))
  if (runsPrograms(directory)) {
    // Some tests start processes of another user, who needs the way to their own directories.
    chmodSync(directory, 0o711)
    process.env['TMPDIR'] = directory
    process.env['SVC_TEST_RUN'] = directory
  }
}
