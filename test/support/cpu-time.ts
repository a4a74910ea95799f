// Measures cost as processor time, which other work on the machine does not change.

/** Milliseconds of processor time that this process spends until `work` is done, on all its threads. */
export async function cpuTimeOf(work: () => unknown): Promise<number> {
  const begun = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(begun)
  return (user + system) / 1000
}
