// The priority of a worker thread whose results no record waits for.

import { setPriority } from 'node:os'

/** Nice value: beside a busy thread it gets about a quarter of the core, else all it can use. */
const NICE = 5

/** Lowers the priority of the current thread. */
export function lowerPriority(): void {
  // On other systems the call changes the whole process.
  if (process.platform === 'linux') setPriority(NICE)
}
