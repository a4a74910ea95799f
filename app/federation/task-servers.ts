// The server of each task of a client: the id of a task does not name it.

/** Of one client; of more, the one begun first is not found any more. */
const maxTasks = 1_000

export class TaskServers {
  #servers = new Map<string, string>()

  add(server: string, taskId: unknown): void {
    if (typeof taskId !== 'string') return
    this.#servers.set(taskId, server)
    const [first] = this.#servers.keys()
    if (this.#servers.size > maxTasks && first !== undefined) this.#servers.delete(first)
  }

  of(taskId: string): string | undefined {
    return this.#servers.get(taskId)
  }
}
