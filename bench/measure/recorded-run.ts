// The raw rounds of a run, kept in a file with those of other runs.
import { readFile, writeFile } from 'node:fs/promises'

export interface RecordedRun {
  /** The machine, and what else ran on it. */
  readonly machine: string
  /** The rounds of each benchmark. */
  readonly rounds: Readonly<Record<string, unknown>>
}

/** Adds the run to those in the file, one a line; creates the file if there is none. */
export async function recordRun(file: string, run: RecordedRun): Promise<void> {
  const lines = [...(await recordedRuns(file)), run].map((one) => JSON.stringify(one))
  await writeFile(file, `[\n${lines.join(',\n')}\n]\n`)
}

async function recordedRuns(file: string): Promise<readonly RecordedRun[]> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
